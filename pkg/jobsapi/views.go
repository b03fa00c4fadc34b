package jobsapi

import (
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// JobOf returns a job as the API shows it, without payload and last run.
func JobOf(j *job.Job) Job {
	s := Schedule{Type: "once", RunAt: j.Schedule.At.UTC()}
	if j.Schedule.Recurs() {
		s = Schedule{Type: "cron", Expr: j.Schedule.Cron, TZ: j.Schedule.Zone}
	}
	t := j.Target
	out := Job{
		ID: j.ID.String(), Status: string(j.Status), Name: j.Name, Tenant: j.Tenant, Labels: j.Labels, Schedule: s,
		Target: Target{
			Type: string(t.Type), URL: t.URL, Method: t.Method, Headers: t.Headers, Timeout: Duration(t.Timeout),
			Group: t.Group, Service: t.Service, ARN: t.ARN,
		},
		Retry: Retry{
			MaxAttempts: j.Retry.MaxAttempts, Base: Duration(j.Retry.Base), Max: Duration(j.Retry.Max), Also: j.Retry.Also,
		},
		Overlap: string(j.Overlap), CatchUp: string(j.CatchUp), CatchUpWindow: Duration(j.CatchUpWindow),
		DST: dstOf(j.Schedule.Policy), CreatedAt: j.Created.UTC(), UpdatedAt: j.Updated.UTC(),
		Version: j.Version, Generation: j.Generation,
	}
	if j.Tolerance != nil {
		d := Duration(*j.Tolerance)
		out.DelayTolerance = &d
	}
	if !j.Notify.IsZero() {
		n := Notify(j.Notify)
		out.Notify = &n
	}
	if j.Status == job.JobIsActive && !j.Pending.IsZero() {
		out.NextRunAt = timeOf(j.Pending)
		out.NextRunID = string(job.NewRunID(j.ID, j.Generation, j.Pending))
	}
	return out
}

// RunOf returns a run as the API shows it at a time; excerpts says whether what a
// target answered is shown.
func RunOf(r *job.Run, now time.Time, excerpts bool) Run {
	kind, status := string(r.Kind), string(r.State)
	if r.Kind == job.Occurrence {
		kind = "schedule"
	}
	due := r.Nominal
	if r.NotBefore.After(due) {
		due = r.NotBefore
	}
	if r.State == job.Scheduled && !now.Before(due) {
		status = Queued
	}
	out := Run{
		ID: string(r.ID), Job: r.Job.String(), Tenant: r.Tenant, Status: status, Kind: kind,
		ScheduledAt: r.Nominal.UTC(), Generation: r.Generation, Attempt: r.Attempt, Failures: r.Failures,
		Crashes: r.Crashes, Deferrals: r.Deferrals, Accepted: r.Accepted, CancelRequested: r.CancelRequested,
		Reason: r.Reason, EndedAt: timeOf(r.Ended), OriginalRun: string(r.OriginalID), RedrivenAs: string(r.Redriven),
	}
	switch r.State {
	case job.Running:
		out.LeaseUntil = timeOf(r.LeaseUntil)
	case job.Scheduled, job.Retrying:
		out.NotBefore = timeOf(r.NotBefore)
	}
	if r.Skipped.Count > 0 {
		out.Skipped = &Range{From: r.Skipped.From.UTC(), Until: r.Skipped.Until.UTC(), Count: r.Skipped.Count}
	}
	for _, a := range r.Attempts {
		view := Attempt{Number: a.Number, Start: a.Start.UTC(), End: timeOf(a.End), StatusCode: a.StatusCode, Error: a.Error}
		if excerpts {
			view.Response = a.Excerpt
		}
		out.Attempts = append(out.Attempts, view)
	}
	return out
}

// DeadLetterOf returns a dead run as the API shows it, with what was sent where
// payloads are shown.
func DeadLetterOf(r *job.Run, now time.Time, payloads bool) DeadLetter {
	d := DeadLetter{Run: RunOf(r, now, payloads), LastError: r.Reason}
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Error != "" {
		d.LastError = r.Attempts[n-1].Error
	}
	if payloads {
		d.Payload, d.PayloadBase64 = SplitPayload(r.Payload)
	}
	return d
}

// TenantOf returns a tenant's record as the API shows it.
func TenantOf(t *jobstore.Tenant) Tenant {
	out := Tenant{ID: t.ID, UpdatedAt: t.Updated.UTC(), Version: t.Version, PutTenant: PutTenant{
		MaxConcurrent: t.MaxConcurrent, AllowRanges: t.AllowRanges, AllowServices: t.AllowServices,
		AllowTopics: t.AllowTopics, Rates: t.Rates,
	}}
	if !t.Contact.IsZero() {
		n := Notify(t.Contact)
		out.Contact = &n
	}
	return out
}

// Record returns the record to store; Updated and Version are the caller's.
func (p *PutTenant) Record(id string) jobstore.Tenant {
	t := jobstore.Tenant{
		ID: id, MaxConcurrent: p.MaxConcurrent, AllowRanges: p.AllowRanges, AllowServices: p.AllowServices,
		AllowTopics: p.AllowTopics, Rates: p.Rates,
	}
	if p.Contact != nil {
		t.Contact = job.Notify(*p.Contact)
	}
	return t
}

// KeyOf returns an API key as the API shows it.
func KeyOf(k *jobstore.Key) Key {
	return Key{
		ID: k.ID, Tenant: k.Tenant, Role: k.Role, Name: k.Name, CreatedAt: k.Created.UTC(),
		ExpiresAt: timeOf(k.Expires), RevokedAt: timeOf(k.Revoked),
	}
}

// SecretOf returns a signing secret as the API shows it.
func SecretOf(s *jobstore.Secret) Secret {
	return Secret{ID: s.ID, Tenant: s.Tenant, CreatedAt: s.Created.UTC(), ExpiresAt: timeOf(s.Expires)}
}

// AuditOf returns a change as the API shows it.
func AuditOf(a *jobstore.AuditRecord) AuditRecord {
	return AuditRecord{
		ID: a.ID.String(), Tenant: a.Tenant, At: a.At.UTC(), Subject: a.Subject, Action: a.Action,
		Object: a.Object, Detail: a.Detail,
	}
}
