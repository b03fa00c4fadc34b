package jobsapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Spec returns the definition, its defaults filled in. What the body itself gets
// wrong is reported, each a [*trigger.FieldError], joined; job.Spec.Validate
// reports the rest.
func (c *CreateJob) Spec() (job.Spec, error) {
	errs := make([]error, 0, 4)
	s := job.Spec{
		Name: c.Name, Tenant: c.Tenant, Labels: c.Labels, Overlap: job.Overlap(c.Overlap),
		CatchUp: job.CatchUp(c.CatchUp), CatchUpWindow: time.Duration(c.CatchUpWindow),
	}
	var err error
	s.Schedule, err = c.Schedule.Timing(c.DST)
	errs = append(errs, err)
	s.Target, err = c.Target.target()
	errs = append(errs, err)
	s.Payload, err = payload(c.Payload, c.PayloadBase64)
	errs = append(errs, err)
	if c.Retry != nil {
		s.Retry = c.Retry.policy()
	}
	if c.DelayTolerance != nil {
		d := time.Duration(*c.DelayTolerance)
		s.Tolerance = &d
	}
	if c.Notify != nil {
		s.Notify = job.Notify(*c.Notify)
	}
	return s.WithDefaults(), errors.Join(errs...)
}

// firstYear is that of the earliest time a job may name: ids hold no time before 1970.
const firstYear = 2000

// Timing returns the schedule under a policy; nil: the default one. Errors are
// [*trigger.FieldError], joined.
func (s *Schedule) Timing(dst *DST) (job.Timing, error) {
	t := job.Timing{Cron: s.Expr, Zone: s.TZ}
	var errs []error
	if !s.RunAt.IsZero() {
		t.At = wholeMillis(s.RunAt)
	}
	switch s.Type {
	case "once":
		switch {
		case s.RunAt.IsZero():
			errs = append(errs, fault("schedule.run_at", "missing"))
		case s.RunAt.Year() < firstYear:
			errs = append(errs, fault("schedule.run_at", "want %d or later", firstYear))
		}
		for field, v := range map[string]string{"schedule.expr": s.Expr, "schedule.tz": s.TZ} {
			if v != "" {
				errs = append(errs, fault(field, "needs type cron"))
			}
		}
		if dst != nil {
			errs = append(errs, fault("dst", "needs type cron"))
		}
	case "cron":
		if s.Expr == "" {
			errs = append(errs, fault("schedule.expr", "missing"))
		}
		if !s.RunAt.IsZero() {
			errs = append(errs, fault("schedule.run_at", "needs type once"))
		}
		if t.Zone == "" {
			t.Zone = job.DefaultZone
		}
		if dst != nil {
			t.Policy = cron.Policy{Gap: cron.Gap(dst.Gap), Fold: cron.Fold(dst.Fold)}
		}
	default:
		errs = append(errs, fault("schedule.type", "want once or cron"))
	}
	return t, errors.Join(errs...)
}

// wholeMillis rounds up: no job is early.
func wholeMillis(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Millisecond)
	if whole.Before(t) {
		whole = whole.Add(time.Millisecond)
	}
	return whole
}

func (t *Target) target() (job.Target, error) {
	var errs []error
	only := func(field string, given bool, types ...string) {
		if given && !slices.Contains(types, t.Type) {
			errs = append(errs, fault("target."+field, "needs type %s", strings.Join(types, " or ")))
		}
	}
	need := func(field, value string) {
		if value == "" {
			errs = append(errs, fault("target."+field, "missing"))
		}
	}
	only("url", t.URL != "", "http")
	only("method", t.Method != "", "http")
	only("headers", len(t.Headers) > 0, "http")
	only("timeout", t.Timeout != 0, "http")
	only("group", t.Group != "", "http")
	only("service", t.Service != "", "queue")
	only("arn", t.ARN != "", "topic")
	switch t.Type {
	case "http":
		need("url", t.URL)
	case "queue":
		need("service", t.Service)
	case "topic":
		need("arn", t.ARN)
	default:
		errs = append(errs, fault("target.type", "want http, queue or topic"))
	}
	return job.Target{
		Type: job.TargetType(t.Type), URL: t.URL, Method: t.Method, Headers: t.Headers,
		Timeout: time.Duration(t.Timeout), Group: t.Group, Service: t.Service, ARN: t.ARN,
	}, errors.Join(errs...)
}

func (r *Retry) policy() job.Retry {
	return job.Retry{MaxAttempts: r.MaxAttempts, Base: time.Duration(r.Base), Max: time.Duration(r.Max), Also: r.Also}
}

func payload(raw json.RawMessage, coded *string) ([]byte, error) {
	var out []byte
	switch {
	case raw != nil && coded != nil:
		return nil, fault("payload_base64", "given beside payload; give one of the two")
	case raw != nil:
		out = raw
	case coded != nil:
		var err error
		if out, err = base64.StdEncoding.DecodeString(*coded); err != nil {
			return nil, fault("payload_base64", "not standard base64 with padding")
		}
	}
	if n := len(out); n > trigger.MaxPayload {
		return nil, fault("payload", "%d bytes; the limit is %d", n, trigger.MaxPayload)
	}
	return out, nil
}

// Apply changes a job as the body says. Errors are [*trigger.FieldError], joined;
// job.Spec.Validate reports the rest.
func (p *PatchJob) Apply(j *job.Job) error {
	errs := make([]error, 0, 4)
	var err error
	if p.Status != nil {
		j.Status = job.JobStatus(*p.Status)
	}
	if p.Name != nil {
		j.Name = *p.Name
	}
	if p.Labels != nil {
		j.Labels = *p.Labels
	}
	switch {
	case p.Schedule != nil:
		dst := p.DST
		if dst == nil && p.Schedule.Type == "cron" {
			dst = dstOf(j.Schedule.Policy)
		}
		j.Schedule, err = p.Schedule.Timing(dst)
		errs = append(errs, err)
	case p.DST != nil && j.Schedule.Recurs():
		j.Schedule.Policy = cron.Policy{Gap: cron.Gap(p.DST.Gap), Fold: cron.Fold(p.DST.Fold)}
	case p.DST != nil:
		errs = append(errs, fault("dst", "needs a cron schedule"))
	}
	if p.Target != nil {
		j.Target, err = p.Target.target()
		errs = append(errs, err)
	}
	if p.Payload != nil || p.PayloadBase64 != nil {
		j.Payload, err = payload(p.Payload, p.PayloadBase64)
		errs = append(errs, err)
	}
	if p.Retry != nil {
		j.Retry = p.Retry.policy()
	}
	if p.DelayTolerance != nil {
		j.Tolerance = nil
		if *p.DelayTolerance != "" {
			d, err := ParseDuration(*p.DelayTolerance)
			if err != nil {
				errs = append(errs, fault("delay_tolerance", "%v", err))
			}
			t := time.Duration(d)
			j.Tolerance = &t
		}
	}
	if p.Overlap != nil {
		j.Overlap = job.Overlap(*p.Overlap)
	}
	if p.CatchUp != nil {
		j.CatchUp = job.CatchUp(*p.CatchUp)
		if j.CatchUp != job.CatchUpAll {
			j.CatchUpWindow = 0
		}
	}
	if p.CatchUpWindow != nil {
		j.CatchUpWindow = time.Duration(*p.CatchUpWindow)
	}
	if p.Notify != nil {
		j.Notify = job.Notify(*p.Notify)
	}
	j.Spec = j.WithDefaults()
	return errors.Join(errs...)
}

// Empty reports whether the body changes nothing.
func (p *PatchJob) Empty() bool {
	return p.Status == nil && p.Name == nil && p.Labels == nil && p.Schedule == nil && p.Target == nil &&
		p.Payload == nil && p.PayloadBase64 == nil && p.Retry == nil && p.DelayTolerance == nil && p.Overlap == nil &&
		p.CatchUp == nil && p.CatchUpWindow == nil && p.DST == nil && p.Notify == nil
}

// SplitPayload returns a payload as the API shows it: as it stands where it is
// JSON, else in base64.
func SplitPayload(b []byte) (json.RawMessage, string) {
	switch {
	case len(b) == 0:
		return nil, ""
	case json.Valid(b):
		return b, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

func dstOf(p cron.Policy) *DST {
	if p == (cron.Policy{}) {
		return nil
	}
	return &DST{Gap: string(p.Gap), Fold: string(p.Fold)}
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}
