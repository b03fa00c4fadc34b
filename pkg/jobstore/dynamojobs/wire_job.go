package dynamojobs

import (
	"time"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Attributes of a job's items that expressions name.
const (
	attrStatus     = "st"
	attrGeneration = "g"
	attrVersion    = "ve"
	attrSeq        = "q"
	attrPending    = "pe"
	attrPrevious   = "pr"
	attrActive     = "ac"
	attrWaiting    = "wa"
	attrLabels     = "la"
)

// specWire is a definition. The payload is an attribute of its own.
type specWire struct {
	Name          string            `dynamodbav:"na,omitempty"`
	Tenant        string            `dynamodbav:"te,omitempty"`
	Labels        map[string]string `dynamodbav:"la,omitempty"`
	Schedule      timingWire        `dynamodbav:"sc"`
	Target        targetWire        `dynamodbav:"ta"`
	Payload       []byte            `dynamodbav:"b,omitempty"`
	Retry         retryWire         `dynamodbav:"re"`
	Tolerance     *time.Duration    `dynamodbav:"tl,omitempty"`
	Overlap       string            `dynamodbav:"ov,omitempty"`
	CatchUp       string            `dynamodbav:"cu,omitempty"`
	CatchUpWindow time.Duration     `dynamodbav:"cw,omitempty"`
	Notify        notifyWire        `dynamodbav:"nt"`
	Created       number            `dynamodbav:"c,omitempty"`
	Updated       number            `dynamodbav:"u,omitempty"`
	Version       int64             `dynamodbav:"ve"`
}

type timingWire struct {
	At   number `dynamodbav:"a,omitempty"`
	Cron string `dynamodbav:"c,omitempty"`
	Zone string `dynamodbav:"z,omitempty"`
	Gap  string `dynamodbav:"g,omitempty"`
	Fold string `dynamodbav:"f,omitempty"`
}

// targetWire converts from and to [job.Target]; so do retryWire and notifyWire
// from and to theirs.
type targetWire struct {
	Type    job.TargetType    `dynamodbav:"y,omitempty"`
	URL     string            `dynamodbav:"u,omitempty"`
	Method  string            `dynamodbav:"m,omitempty"`
	Headers map[string]string `dynamodbav:"h,omitempty"`
	Timeout time.Duration     `dynamodbav:"o,omitempty"`
	Group   string            `dynamodbav:"g,omitempty"`
	Service string            `dynamodbav:"v,omitempty"`
	ARN     string            `dynamodbav:"a,omitempty"`
}

type retryWire struct {
	MaxAttempts int           `dynamodbav:"n,omitempty"`
	Base        time.Duration `dynamodbav:"b,omitempty"`
	Max         time.Duration `dynamodbav:"m,omitempty"`
	Also        []int         `dynamodbav:"a,omitempty"`
}

type notifyWire struct {
	Topic   string `dynamodbav:"t,omitempty"`
	Webhook string `dynamodbav:"w,omitempty"`
}

// defWire is the item "def".
type defWire struct {
	specWire
	Expires int64 `dynamodbav:"x,omitempty"`
}

// listedWire is the list item: a definition without its payload, and the status.
type listedWire struct {
	specWire
	Status     job.JobStatus `dynamodbav:"st"`
	Generation int64         `dynamodbav:"g"`
	Expires    int64         `dynamodbav:"x,omitempty"`
}

// nowWire is the item "now".
type nowWire struct {
	Status     job.JobStatus `dynamodbav:"st"`
	Generation int64         `dynamodbav:"g"`
	Version    int64         `dynamodbav:"ve"`
	Seq        int64         `dynamodbav:"q"`
	Pending    number        `dynamodbav:"pe,omitempty"`
	Previous   number        `dynamodbav:"pr,omitempty"`
	Active     job.RunID     `dynamodbav:"ac,omitempty"`
	Waiting    job.RunID     `dynamodbav:"wa,omitempty"`
	Shard      string        `dynamodbav:"w,omitempty"`
	Wake       number        `dynamodbav:"t,omitempty"`
	Expires    int64         `dynamodbav:"x,omitempty"`
}

func specOf(j *job.Job) specWire {
	return specWire{
		Name: j.Name, Tenant: j.Tenant, Labels: j.Labels,
		Schedule: timingWire{
			At: millis(j.Schedule.At), Cron: j.Schedule.Cron, Zone: j.Schedule.Zone,
			Gap: string(j.Schedule.Policy.Gap), Fold: string(j.Schedule.Policy.Fold),
		},
		Target: targetWire(j.Target), Payload: j.Payload, Retry: retryWire(j.Retry), Tolerance: j.Tolerance,
		Overlap: string(j.Overlap), CatchUp: string(j.CatchUp), CatchUpWindow: j.CatchUpWindow,
		Notify: notifyWire(j.Notify), Created: millis(j.Created), Updated: millis(j.Updated), Version: j.Version,
	}
}

func (w *specWire) job(r *reader, id trigger.ID) job.Job {
	return job.Job{
		ID: id,
		Spec: job.Spec{
			Name: w.Name, Tenant: w.Tenant, Labels: w.Labels,
			Schedule: job.Timing{
				At: r.time(w.Schedule.At), Cron: w.Schedule.Cron, Zone: w.Schedule.Zone,
				Policy: cron.Policy{Gap: cron.Gap(w.Schedule.Gap), Fold: cron.Fold(w.Schedule.Fold)},
			},
			Target: job.Target(w.Target), Payload: w.Payload, Retry: job.Retry(w.Retry), Tolerance: w.Tolerance,
			Overlap: job.Overlap(w.Overlap), CatchUp: job.CatchUp(w.CatchUp), CatchUpWindow: w.CatchUpWindow,
			Notify: job.Notify(w.Notify),
		},
		Created: r.time(w.Created), Updated: r.time(w.Updated), Version: w.Version,
	}
}

func nowOf(j *job.Job, seq int64) nowWire {
	w := nowWire{
		Status: j.Status, Generation: j.Generation, Version: j.Version, Seq: seq,
		Pending: millis(j.Pending), Previous: millis(j.Previous), Active: j.Active, Waiting: j.Waiting,
		Wake: millis(j.Wake),
	}
	if w.Wake != "" {
		w.Shard = shard(nowKey(j.ID))
	}
	return w
}

func (w *nowWire) progress(r *reader) job.Progress {
	return job.Progress{
		Pending: r.time(w.Pending), Previous: r.time(w.Previous), Active: w.Active, Waiting: w.Waiting,
		Wake: r.time(w.Wake), Seq: w.Seq,
	}
}

// jobItems returns the three items of a job, by the order def, now, list.
func (s *Store) jobItems(j *job.Job, seq int64) (items [3]attributes, err error) {
	def, now := defWire{specWire: specOf(j)}, nowOf(j, seq)
	listed := listedWire{specWire: def.specWire, Status: j.Status, Generation: j.Generation}
	listed.Payload = nil
	if j.Status == job.JobIsDeleted {
		at := j.Updated
		if at.IsZero() {
			at = s.o.Now()
		}
		x := ttl(at.Add(keepDeleted))
		def.Expires, now.Expires, listed.Expires = x, x, x
	}
	if items[0], err = encode(defKey(j.ID), def); err != nil {
		return items, err
	}
	if items[1], err = encode(nowKey(j.ID), now); err != nil {
		return items, err
	}
	items[2], err = encode(listedKey(j), listed)
	return items, err
}

// readJob puts a job together from its items "def" and "now", whose versions are
// one.
func readJob(id trigger.ID, def *defWire, now *nowWire) (job.Job, error) {
	var r reader
	j := def.job(&r, id)
	j.Status, j.Generation, j.Version = now.Status, now.Generation, now.Version
	j.Progress = now.progress(&r)
	return j, r.err()
}

// readListed reads a list item; its progress is not in it.
func readListed(it attributes) (job.Job, error) {
	n, err := parse(keyOf(it))
	if err != nil {
		return job.Job{}, err
	}
	var w listedWire
	if err := decode(it, &w); err != nil {
		return job.Job{}, err
	}
	var r reader
	j := w.job(&r, n.job)
	j.Status, j.Generation = w.Status, w.Generation
	return j, r.err()
}
