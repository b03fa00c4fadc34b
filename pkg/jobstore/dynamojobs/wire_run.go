package dynamojobs

import (
	"github.com/myosin-jobs/myosin/pkg/job"
)

// Attributes that a list of runs leaves out.
const (
	attrPayload     = "b"
	attrCallPayload = "cb"
)

// runWire is the item of a run. ID and job are in its key.
type runWire struct {
	Original        job.RunID     `dynamodbav:"o,omitempty"`
	Tenant          string        `dynamodbav:"te,omitempty"`
	Kind            job.Kind      `dynamodbav:"k,omitempty"`
	Generation      int64         `dynamodbav:"g"`
	Nominal         number        `dynamodbav:"n,omitempty"`
	State           job.State     `dynamodbav:"st"`
	Attempt         int           `dynamodbav:"a,omitempty"`
	Failures        int           `dynamodbav:"f,omitempty"`
	Crashes         int           `dynamodbav:"c,omitempty"`
	LeaseUntil      number        `dynamodbav:"l,omitempty"`
	NotBefore       number        `dynamodbav:"nb,omitempty"`
	Accepted        bool          `dynamodbav:"ok,omitempty"`
	CancelRequested bool          `dynamodbav:"cr,omitempty"`
	Reason          string        `dynamodbav:"r,omitempty"`
	Attempts        []attemptWire `dynamodbav:"al,omitempty"`
	Skipped         *rangeWire    `dynamodbav:"sk,omitempty"`
	Ended           number        `dynamodbav:"e,omitempty"`
	Redriven        job.RunID     `dynamodbav:"rd,omitempty"`
	Urgent          bool          `dynamodbav:"ur,omitempty"`
	Deferrals       int           `dynamodbav:"df,omitempty"`
	Call            *targetWire   `dynamodbav:"ca,omitempty"`
	CallPayload     []byte        `dynamodbav:"cb,omitempty"`
	Payload         []byte        `dynamodbav:"b,omitempty"`
	Version         int64         `dynamodbav:"ve"`

	Shard   string `dynamodbav:"w,omitempty"`
	Wake    number `dynamodbav:"t,omitempty"`
	Dead    string `dynamodbav:"d,omitempty"`
	Died    number `dynamodbav:"dt,omitempty"`
	Expires int64  `dynamodbav:"x,omitempty"`
}

type attemptWire struct {
	Number     int    `dynamodbav:"n"`
	Start      number `dynamodbav:"s,omitempty"`
	End        number `dynamodbav:"e,omitempty"`
	Error      string `dynamodbav:"r,omitempty"`
	StatusCode int    `dynamodbav:"c,omitempty"`
	Excerpt    string `dynamodbav:"x,omitempty"`
}

type rangeWire struct {
	From  number `dynamodbav:"f,omitempty"`
	Until number `dynamodbav:"u,omitempty"`
	Count int64  `dynamodbav:"n"`
}

// deadLetter reports whether a run is listed as one: somebody may redrive it.
func deadLetter(r *job.Run) bool {
	return r.State == job.Dead && r.Redriven == "" && r.Kind != job.Notice && r.Tenant != ""
}

// runItem returns the item of a run in a version.
func (s *Store) runItem(r *job.Run, version int64) (attributes, error) {
	k, err := runKey(r.ID)
	if err != nil {
		return nil, err
	}
	w := runWire{
		Original: r.OriginalID, Tenant: r.Tenant, Kind: r.Kind, Generation: r.Generation, Nominal: millis(r.Nominal),
		State: r.State, Attempt: r.Attempt, Failures: r.Failures, Crashes: r.Crashes,
		LeaseUntil: millis(r.LeaseUntil), NotBefore: millis(r.NotBefore),
		Accepted: r.Accepted, CancelRequested: r.CancelRequested, Reason: r.Reason,
		Ended: millis(r.Ended), Redriven: r.Redriven, Urgent: r.Urgent, Deferrals: r.Deferrals,
		Payload: r.Payload, Version: version, Wake: millis(r.Wake),
	}
	for _, a := range r.Attempts {
		w.Attempts = append(w.Attempts, attemptWire{
			Number: a.Number, Start: millis(a.Start), End: millis(a.End), Error: a.Error, StatusCode: a.StatusCode, Excerpt: a.Excerpt,
		})
	}
	if r.Skipped != (job.Range{}) {
		w.Skipped = &rangeWire{From: millis(r.Skipped.From), Until: millis(r.Skipped.Until), Count: r.Skipped.Count}
	}
	if r.Call != nil {
		target := targetWire(r.Call.Target)
		w.Call, w.CallPayload = &target, r.Call.Payload
	}
	if w.Wake != "" {
		w.Shard = shard(k)
	}
	if ended := r.Ended; r.State.Terminal() {
		if ended.IsZero() {
			ended = s.o.Now()
		}
		w.Expires = ttl(ended.Add(s.o.Retention))
		if deadLetter(r) {
			w.Dead, w.Died = r.Tenant, millis(ended)
		}
	}
	return encode(k, w)
}

// readRun reads the item of a run.
func readRun(it attributes) (job.Run, error) {
	id, jobID, err := parseRun(keyOf(it))
	if err != nil {
		return job.Run{}, err
	}
	var w runWire
	if err := decode(it, &w); err != nil {
		return job.Run{}, err
	}
	var r reader
	run := job.Run{
		ID: id, OriginalID: w.Original, Job: jobID, Tenant: w.Tenant, Kind: w.Kind, Generation: w.Generation,
		Nominal: r.time(w.Nominal), State: w.State, Attempt: w.Attempt, Failures: w.Failures, Crashes: w.Crashes,
		LeaseUntil: r.time(w.LeaseUntil), NotBefore: r.time(w.NotBefore),
		Accepted: w.Accepted, CancelRequested: w.CancelRequested, Reason: w.Reason,
		Ended: r.time(w.Ended), Redriven: w.Redriven, Urgent: w.Urgent, Deferrals: w.Deferrals,
		Payload: w.Payload, Version: w.Version, Wake: r.time(w.Wake),
	}
	for _, a := range w.Attempts {
		run.Attempts = append(run.Attempts, job.Attempt{
			Number: a.Number, Start: r.time(a.Start), End: r.time(a.End), Error: a.Error, StatusCode: a.StatusCode, Excerpt: a.Excerpt,
		})
	}
	if w.Skipped != nil {
		run.Skipped = job.Range{From: r.time(w.Skipped.From), Until: r.time(w.Skipped.Until), Count: w.Skipped.Count}
	}
	if w.Call != nil {
		run.Call = &job.Call{Target: job.Target(*w.Call), Payload: w.CallPayload}
	}
	return run, r.err()
}
