package jobcontrol

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/store"
)

// Message is the payload of a run's trigger.
type Message struct {
	Run      job.RunID `json:"run"`
	Failures int       `json:"failures"` // of the run when the trigger was made
}

// ReadMessage reads the payload of a run's trigger.
func ReadMessage(payload []byte) (Message, job.RunParts, error) {
	var m Message
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, job.RunParts{}, fmt.Errorf("read message of a run: %w", err)
	}
	id, parts, err := job.ParseRunID(string(m.Run))
	if err != nil {
		return m, job.RunParts{}, fmt.Errorf("read message of a run: %q: %w", m.Run, err)
	}
	m.Run = id
	return m, parts, nil
}

// trigger builds the row that wakes a run at a time. key makes it the same row
// however often it is built; empty: a new one each time.
func (c *Control) trigger(ctx context.Context, r job.Run, due time.Time, key string) (*store.Row, error) {
	now := c.now()
	due = due.UTC()
	if !due.After(now) {
		due = now
	}
	// What lies further ahead than triggers may is looked at on the way.
	if most := now.Add(job.MaxAhead - 24*time.Hour); due.After(most) {
		due = most
	}
	service, opts := Service, []client.Option{client.At(due), client.Tenant(r.Tenant), client.Name(MessageName)}
	if r.Urgent {
		service, opts = UrgentService, append(opts, client.UrgentLane())
	}
	if key != "" {
		opts = append(opts, client.Key(key))
	}
	row, _, err := c.o.Triggers.Prepare(ctx, service, Message{Run: r.ID, Failures: r.Failures}, opts...)
	if err != nil {
		return nil, fmt.Errorf("trigger of run %s: %w", r.ID, err)
	}
	return row, nil
}

// NewRun returns the SCHEDULED run of a job's occurrence, which has no record yet.
func NewRun(j *job.Job, nominal time.Time) job.Run {
	r := job.NewRun(j.ID, j.Generation, nominal)
	r.Tenant, r.Urgent = j.Tenant, j.Urgent()
	return r
}

// skipRuns are the records of what did not run.
func skipRuns(j *job.Job, now time.Time, skips []job.Skip) []job.Run {
	runs := make([]job.Run, 0, len(skips))
	for _, s := range skips {
		r := NewRun(j, s.From)
		if s.Kind == job.Gap {
			r.ID = r.ID.Gap()
		}
		r.Kind, r.Skipped = s.Kind, s.Range
		r.State, r.Reason, r.Ended = job.Skipped, s.Reason, now
		runs = append(runs, r)
	}
	return runs
}
