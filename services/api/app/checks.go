package app

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/target"
)

// allowance is what a tenant's targets may be.
type allowance struct {
	tenant jobstore.Tenant
	ranges []netip.Prefix
	// open: there is no record, and no keys either: everything that the guard and
	// the registry know is allowed, with a warning.
	open bool
}

func (m *managed) allowance(ctx context.Context, tenant string) (*allowance, error) {
	t, err := m.m.Records.Tenant(ctx, tenant)
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		return &allowance{open: access.FromContext(ctx).Method == access.ByLocal}, nil
	case err != nil:
		return nil, err
	}
	a := &allowance{tenant: t}
	if len(t.AllowRanges) > 0 {
		if a.ranges, err = target.ParseAllow(strings.Join(t.AllowRanges, ",")); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// checkTarget reports why a tenant's job must not call the target, as field
// errors. Another error: it cannot be told now.
func (m *managed) checkTarget(ctx context.Context, a *allowance, t *job.Target) (bad, failed error) {
	switch t.Type {
	case job.TargetHTTP:
		return m.m.Guard.CheckHTTP(target.HTTP{URL: t.URL, Method: t.Method, Headers: t.Headers, Timeout: t.Timeout}, a.ranges), nil
	case job.TargetTopic:
		if err := a.checkTopic(t.ARN); err != nil {
			return fieldError("target.arn", "%s", firstLine(err)), nil
		}
		return nil, nil
	}
	switch _, err := m.o.Services.Get(ctx, t.Service); {
	case errors.Is(err, registry.ErrUnknown), err == nil && m.internal(t.Service):
		return fieldError("target.service", "is not known"), nil
	case err != nil:
		return nil, err
	case !a.open && !matches(a.tenant.AllowServices, t.Service):
		return fieldError("target.service", "is not allowed: the tenant's allow_services does not name it"), nil
	}
	return nil, nil
}

// internal reports services that are the platform's own.
func (m *managed) internal(service string) bool {
	return isSwitch(service) || service == jobcontrol.Service || service == jobcontrol.UrgentService
}

func (a *allowance) checkTopic(arn string) error {
	allowed := a.tenant.AllowTopics
	if a.open {
		allowed = []string{arn}
	}
	return target.CheckTopic(arn, allowed)
}

// checkNotify reports why the tenant's job must not notify so.
func (m *managed) checkNotify(a *allowance, n job.Notify, field string) error {
	switch {
	case n.Topic != "" && n.Webhook != "":
		return fieldError(field, "names a topic and a webhook; want one of them")
	case n.Topic != "":
		if err := a.checkTopic(n.Topic); err != nil {
			return fieldError(field+".topic", "%s", firstLine(err))
		}
	case n.Webhook != "":
		if _, err := m.m.Guard.Check(n.Webhook, a.ranges); err != nil {
			return fieldError(field+".webhook", "%s", strings.TrimPrefix(firstLine(err), "target url: "))
		}
	}
	return nil
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// matches tells whether a name is one of the patterns, whose '*' at the end
// stands for anything.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		prefix, open := strings.CutSuffix(p, "*")
		if p == name || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// parts says what of a job is new. What is not was allowed once: a job whose target
// is not allowed any more can still be paused.
type parts struct{ target, notify bool }

// check reports everything for which a job must be refused, as a problem, and
// what its author may not have meant.
func (m *managed) check(ctx context.Context, spec *job.Spec, fresh parts, earlier error) ([]jobsapi.Warning, error) {
	now := m.o.Now()
	errs := []error{earlier}
	if earlier == nil { // else the same faults would be told twice
		errs = append(errs, faults(spec.Validate(now)))
	}
	a, err := m.allowance(ctx, spec.Tenant)
	if err != nil {
		return nil, m.failed(ctx, "read tenant", "tenant", err)
	}
	if fresh.target && validType(spec.Target.Type) {
		bad, err := m.checkTarget(ctx, a, &spec.Target)
		if err != nil {
			return nil, m.failed(ctx, "check target", "service", err)
		}
		errs = append(errs, faults(bad))
	}
	nobody := spec.Notify.IsZero() && a.tenant.Contact.IsZero()
	if fresh.notify {
		errs = append(errs, m.checkNotify(a, spec.Notify, "notify"))
		if nobody && !a.open {
			errs = append(errs, fieldError("notify", "missing: neither the job nor its tenant's record names whom to tell when a run dies"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, problemOf(err)
	}
	return m.warnings(a, spec, nobody, now), nil
}

func validType(t job.TargetType) bool {
	return t == job.TargetHTTP || t == job.TargetQueue || t == job.TargetTopic
}

func (m *managed) warnings(a *allowance, spec *job.Spec, nobody bool, now time.Time) []jobsapi.Warning {
	out := []jobsapi.Warning{}
	add := func(code, message string) { out = append(out, jobsapi.Warning{Code: code, Message: message}) }
	schedule, err := spec.Schedule.Compile()
	switch {
	case err == nil && schedule != nil:
		out = append(out, schedule.Warnings(now)...)
	case err == nil && spec.Schedule.At.Before(now):
		add("past", "run_at is past: the job runs at once")
	}
	if nobody {
		add("no_contact", "nobody is told when a run dies: name notify, or a contact in the tenant's record; with API keys such a job is refused")
	}
	if a.open && spec.Target.Type != job.TargetHTTP {
		add("not_restricted", "the tenant has no record: every service and topic is a target; with API keys only those that the record allows")
	}
	if u, err := url.Parse(spec.Target.URL); err == nil && spec.Target.Type == job.TargetHTTP && loopback(u.Host) {
		add("loopback", "the target is on the machine that runs Myosin; a shared installation refuses such targets")
	}
	return out
}

// fireTimes returns the next times of a schedule after an instant, at most n.
func fireTimes(t *job.Timing, after time.Time, n int) []time.Time {
	schedule, err := t.Compile()
	switch {
	case err != nil:
		return []time.Time{}
	case schedule != nil:
		return append([]time.Time{}, schedule.Preview(after, n)...)
	}
	return []time.Time{t.At.UTC()}
}
