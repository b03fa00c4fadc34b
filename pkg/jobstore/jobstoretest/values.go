package jobstoretest

import (
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func after(minutes int) time.Time { return Start().Add(time.Duration(minutes) * time.Minute) }

// tenantOf is a tenant that no other test has.
func tenantOf() string { return "t-" + trigger.NewID().String() }

// newJob is an active job with the least that one has.
func newJob(tenant string) job.Job {
	return job.Job{
		ID: trigger.NewID(), Status: job.JobIsActive, Generation: 1, Created: Start(), Updated: Start(), Version: 1,
		Spec: job.Spec{
			Name: "report", Tenant: tenant, Schedule: job.Timing{Cron: "0 * * * *"},
			Target: job.Target{Type: job.TargetHTTP, URL: "https://example.com/run"},
		}.WithDefaults(),
	}
}

// fullJob is a job with something in every field.
func fullJob(tenant string) job.Job {
	tolerance := 90 * time.Second
	j := newJob(tenant)
	j.Spec = job.Spec{
		Name: "bericht – ü", Tenant: tenant, Labels: map[string]string{"team": "billing", "empty": ""},
		Schedule: job.Timing{At: after(5), Cron: "0 * * * *", Zone: "Europe/Berlin", Policy: fullPolicy()},
		Target: job.Target{
			Type: job.TargetHTTP, URL: "https://example.com/run", Method: "PUT", Headers: map[string]string{"X-A": "b"},
			Timeout: 1500 * time.Millisecond, Group: "g", Service: "s", ARN: "arn:aws:sns:eu-central-1:1:t",
		},
		Payload: []byte{0, 1, 0xff}, Retry: job.Retry{MaxAttempts: 7, Base: time.Second, Max: time.Hour, Also: []int{404, 409}},
		Tolerance: &tolerance, Overlap: job.OverlapQueue, CatchUp: job.CatchUpAll, CatchUpWindow: 2 * time.Hour,
		Notify: job.Notify{Topic: "arn:topic", Webhook: "https://hooks.example/x"},
	}
	j.Updated = after(1).Add(time.Millisecond)
	j.Progress = job.Progress{
		Pending: after(60), Previous: after(0), Active: job.NewRunID(j.ID, 1, after(0)), Waiting: job.NewRunID(j.ID, 1, after(30)),
		Wake: after(61).Add(999 * time.Millisecond), Seq: 1,
	}
	return j
}

// fullPolicy has every field at a value that is not its zero.
func fullPolicy() cron.Policy {
	var p cron.Policy
	v := reflect.ValueOf(&p).Elem()
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		case reflect.Uint8:
			f.SetUint(1)
		default:
			panic("jobstoretest: no value for a " + f.Type().String())
		}
	}
	return p
}

func newRun(j *job.Job, minutes int) job.Run {
	r := job.NewRun(j.ID, j.Generation, after(minutes))
	r.Tenant = j.Tenant
	return r
}

// fullRun is a run with something in every field.
func fullRun(j *job.Job, minutes int) job.Run {
	r := newRun(j, minutes)
	r.OriginalID, r.Kind, r.State = r.ID, job.Redriven, job.Dead
	r.ID = r.ID.Redriven()
	r.Attempt, r.Failures, r.Crashes, r.Deferrals = 4, 3, 2, 5
	r.LeaseUntil, r.NotBefore, r.Ended, r.Wake = after(minutes+1), after(minutes+2), after(minutes+3), after(minutes+4)
	r.Accepted, r.CancelRequested, r.Urgent = true, true, true
	r.Reason, r.Redriven = "HTTP 500", r.ID.Redriven()
	r.Attempts = []job.Attempt{
		{Number: 3, Start: after(1), End: after(2), Error: "HTTP 503", StatusCode: 503, Excerpt: "try later"},
		{Number: 4, Start: after(3).Add(time.Millisecond)}, // under way
	}
	r.Skipped = job.Range{From: after(-10), Until: after(-5), Count: 6}
	r.Call = &job.Call{Target: fullJob(j.Tenant).Target, Payload: []byte("told")}
	r.Payload = []byte("sent")
	return r
}

// newRow is the trigger of a job's occurrence.
func newRow(j *job.Job, minutes int) *store.Row {
	id := job.NewRunID(j.ID, j.Generation, after(minutes))
	return &store.Row{
		Trigger: trigger.Trigger{ID: id.TriggerID(), Service: "runs", Due: after(minutes), N: 4, Payload: []byte(id), Tenant: j.Tenant},
		State:   trigger.StateScheduled, Created: Start(),
	}
}

func newAnswer(tenant, key string, expires time.Time) *jobstore.Idempotency {
	return &jobstore.Idempotency{
		Tenant: tenant, Key: key, BodyHash: [32]byte{1, 31: 9}, Status: 201, Answer: []byte(`{"id":"x"}`), Expires: expires,
	}
}

func newAudit(tenant string, minutes int) jobstore.AuditRecord {
	return jobstore.AuditRecord{
		Tenant: tenant, At: after(minutes), ID: trigger.NewID(), Subject: "key1", Action: "job.pause",
		Object: "job1", Detail: "status", Expires: after(1e5),
	}
}

// isFull fails where a field of a value is zero, so that a field that is added to
// a type is added to the values here.
func isFull(t *testing.T, v any) {
	t.Helper()
	for path, f := range fields(reflect.ValueOf(v), reflect.TypeOf(v).Name()) {
		require.False(t, f.IsZero(), "%s has no value in this suite", path)
	}
}

// fields returns the fields of a struct and of those inside it, by path.
func fields(v reflect.Value, path string) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for sf, f := range v.Fields() {
		at := path + "." + sf.Name
		all[at] = f
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if f.Kind() != reflect.Struct || f.Type() == reflect.TypeFor[time.Time]() {
			continue
		}
		maps.Copy(all, fields(f, at))
	}
	return all
}
