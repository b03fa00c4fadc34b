package runs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Waiting reports how many jobs that are due once have a run to come, or one under
// way; nil: none.
func Waiting(ctx context.Context, l *Ledger, records Records) error {
	n, id := 0, ""
	for _, j := range l.list(func(j *Job) bool { return j.Cron == "" && j.ID != "" && !j.Gone && !j.Unsure && j.RunID != "" }) {
		r, err := records.Run(ctx, job.RunID(j.RunID))
		if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return err
		}
		if err != nil || !r.State.Terminal() {
			n, id = n+1, j.RunID
		}
	}
	if n > 0 {
		return fmt.Errorf("%d runs have not ended, such as %s", n, id)
	}
	return nil
}

var runID = regexp.MustCompile(uuid.String() + `_[0-9]{15}-[0-9]+(-[0-9a-zA-Z-]+)?`)

// OnePending reports active minutely jobs that have not exactly one occurrence to
// come, by their records and by the bodies of the triggers that wait: how many,
// and one of them.
func OnePending(ctx context.Context, l *Ledger, records Records, bodies [][]byte) (int, error) {
	now := time.Now()
	waiting := make(map[string][]string) // occurrences ahead, by job and generation
	for _, b := range bodies {
		_, p, err := job.ParseRunID(string(runID.Find(b)))
		if err == nil && p.Suffix == "" && p.Nominal.After(now) {
			of := generation(p.Job.String(), p.Generation)
			waiting[of] = append(waiting[of], p.Sort)
		}
	}
	n, wrong := 0, error(nil)
	for _, known := range l.list(func(j *Job) bool { return j.Cron != "" && j.ID != "" && !j.Deleted }) {
		id, err := trigger.ParseID(known.ID)
		if err != nil {
			return 0, err
		}
		j, err := records.Job(ctx, id)
		if err != nil {
			return 0, fmt.Errorf("job %s: %w", known.ID, err)
		}
		if j.Status != job.JobIsActive {
			continue
		}
		have := waiting[generation(known.ID, j.Generation)]
		if len(have) != 1 || have[0] != job.NewRunID(id, j.Generation, j.Pending).Sort() {
			n++
			wrong = fmt.Errorf("job %s, generation %d, pending %s: triggers %v", known.ID, j.Generation, j.Pending.Format(time.TimeOnly), have)
		}
	}
	return n, wrong
}

func generation(id string, n int64) string { return fmt.Sprintf("%s-%d", id, n) }
