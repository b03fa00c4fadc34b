package memjobs

import (
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// Counts is what DynamoDB would bill for the writes applied: a unit per KiB and
// item, twice that in a transaction, and one for each entry of an index that is
// made or removed. Sizes are those of the adapter's items, about.
type Counts struct {
	Commits  int     // requests that were applied
	Units    float64 // of jobs and runs
	Triggers float64 // of inserted triggers, beside Units
}

// Counts returns what was counted since the start, or since the last Reset.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// ResetCounts starts counting anew.
func (s *Store) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = Counts{}
}

const (
	jobBytes      = 600
	progressBytes = 300
	listBytes     = 400
	runBytes      = 450
	attemptBytes  = 60
)

// What DynamoDB takes, in bytes.
const (
	maxItem        = 400 << 10
	maxTransaction = 4 << 20
)

func units(bytes int) float64 { return float64(max(1, (bytes+1023)/1024)) }

func runSize(r *job.Run) int {
	n := runBytes + len(r.Payload) + len(r.Reason)
	for _, a := range r.Attempts {
		n += attemptBytes + len(a.Error) + len(a.Excerpt)
	}
	if r.Call != nil {
		n += len(r.Call.Payload) + len(r.Call.Target.URL) + len(r.Call.Target.ARN)
	}
	return n
}

// entry is what a change of an index's sort key costs.
func entry(before, after time.Time) float64 {
	switch {
	case before.Equal(after):
		return 0
	case before.IsZero() || after.IsZero():
		return 1
	default:
		return 2
	}
}

// commit counts a transaction about to be applied.
func (c *Counts) commit(s *Store, tx *jobstore.Tx) {
	each := 1.0
	if tx.Parts() > 1 || tx.Guard != nil { // a check exists in transactions only
		each = 2
	}
	c.Commits++
	whole := func(j *job.Job, wake time.Time) {
		c.Units += each*(units(jobBytes+len(j.Payload))+units(progressBytes)+units(listBytes)) + entry(wake, j.Wake)
	}
	if tx.Create != nil {
		whole(tx.Create, time.Time{})
	}
	if tx.Edit != nil {
		whole(tx.Edit, s.jobs[tx.Edit.ID].Wake)
	}
	if tx.Progress != nil {
		c.Units += each*units(progressBytes) + entry(s.jobs[tx.Progress.Job].Wake, tx.Progress.Wake)
	}
	if tx.Guard != nil {
		c.Units += each * units(progressBytes)
	}
	for i := range tx.Runs {
		r := &tx.Runs[i]
		var had job.Run
		if before := s.find(r.ID); before != nil {
			had = *before
		}
		c.Units += each*units(max(runSize(&had), runSize(r))) + entry(had.Wake, r.Wake)
		if deadLetter(&had) != deadLetter(r) {
			c.Units++
		}
	}
	for _, row := range tx.Triggers {
		c.Triggers += each * units(row.Size())
	}
	if tx.Idempotency != nil {
		c.Units += each * units(len(tx.Idempotency.Answer)+200)
	}
	c.Units += each * float64(len(tx.Audit))
}
