package jobsapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// fields returns the faults by field.
func fields(err error) map[string]string {
	out := map[string]string{}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if f, ok := errors.AsType[*trigger.FieldError](e); ok {
				out[f.Field] = f.Msg
			}
		}
	}
	return out
}

func create(t *testing.T, body string) jobsapi.CreateJob {
	t.Helper()
	var c jobsapi.CreateJob
	require.NoError(t, jobsapi.Decode([]byte(body), &c))
	return c
}

func TestPublishedCamelCaseIsTakenWhereTheAPIDefinesTheName(t *testing.T) {
	c := create(t, `{
		"name": "x", "schedule": {"type":"once","runAt":"2026-03-29T09:00:00Z"},
		"target": {"type":"http","url":"https://example.com","headers":{"runAt":"a","max_attempts":"b"}},
		"retryPolicy": {"maxAttempts":3}, "delayTolerance":"5m", "catchUp":"all", "catchUpWindow":"2h",
		"payload": {"runAt": 1,  "retryPolicy": [ ]}, "labels": {"catchUp":"v"}}`)
	require.Equal(t, "2026-03-29T09:00:00Z", c.Schedule.RunAt.Format(time.RFC3339))
	require.Equal(t, 3, c.Retry.MaxAttempts)
	require.Equal(t, "5m", c.DelayTolerance.String())
	require.Equal(t, "all", c.CatchUp)
	require.Equal(t, "2h", c.CatchUpWindow.String())
	require.Equal(t, map[string]string{"runAt": "a", "max_attempts": "b"}, c.Target.Headers)
	require.Equal(t, map[string]string{"catchUp": "v"}, c.Labels)
	require.Equal(t, `{"runAt": 1,  "retryPolicy": [ ]}`, string(c.Payload), "byte for byte") //nolint:testifylint // spaces count.
}

func TestEveryFaultOfABodyIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want map[string]string
	}{
		"unknown, at every depth": {
			`{"when":1,"schedule":{"type":"cron","expr":"* * * * *","seconds":3},"target":{"type":"http","retry_policy":1}}`,
			map[string]string{"when": "unknown field", "schedule.seconds": "unknown field", "target.retry_policy": "unknown field"},
		},
		"two spellings": {
			`{"schedule":{"type":"once","runAt":"2026-03-29T09:00:00Z","run_at":"2026-03-29T09:00:00Z"},"target":{"type":"http"},"retry":{},"retryPolicy":{}}`,
			map[string]string{"schedule.run_at": "given as runAt and as run_at", "retry": "given as retry and as retryPolicy"},
		},
		"twice":   {`{"name":"a","name":"b","schedule":{"type":"once"},"target":{"type":"http"}}`, map[string]string{"name": "given twice"}},
		"missing": {`{}`, map[string]string{"schedule": "missing", "target": "missing"}},
		"missing within": {
			`{"schedule":{},"target":{}}`, map[string]string{"schedule.type": "missing", "target.type": "missing"},
		},
		"null and wrong types": {
			`{"name":null,"labels":{"a":null},"schedule":{"type":7,"run_at":"noon"},"target":{"type":"http","timeout":30,"headers":[]},"retry":{"max_attempts":1.5,"also":["x"]}}`,
			map[string]string{
				"name": "null; leave the field out instead", "labels": "holds null", "schedule.type": "want a string",
				"schedule.run_at": "want an RFC 3339 time such as 2026-03-29T09:00:00Z", "target.timeout": "not a duration such as 30s, 5m or 36h",
				"target.headers": "want an object whose values are each a string", "retry.max_attempts": "want a whole number", "retry.also": "want a list of whole numbers",
			},
		},
		"outside the limits": {
			`{"schedule":{"type":"daily"},"target":{"type":"http"},"retry":{"max_attempts":0},"catch_up_window":"-1h","name":"` + strings.Repeat("x", 129) + `"}`,
			map[string]string{
				"schedule.type": `"daily"; want once, cron`, "retry.max_attempts": "0; want at least 1",
				"catch_up_window": "not a duration such as 30s, 5m or 36h", "name": "129 characters; the limit is 128",
			},
		},
		"no object": {`[]`, map[string]string{"body": "want an object"}},
		"null":      {`null`, map[string]string{"body": "want an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got jobsapi.CreateJob
			require.Equal(t, c.want, fields(jobsapi.Decode([]byte(c.body), &got)))
		})
	}
	var got jobsapi.CreateJob
	require.ErrorIs(t, jobsapi.Decode([]byte(`{"name":`), &got), jobsapi.ErrNotJSON)
	require.ErrorIs(t, jobsapi.Decode([]byte(`{} {}`), &got), jobsapi.ErrNotJSON)
}

func TestAJobComesBackAsItWasSent(t *testing.T) {
	c := create(t, `{"name":"report","tenant":"acme","labels":{"team":"a"},
		"schedule":{"type":"cron","expr":"0 9 * * 1-5","tz":"Asia/Ho_Chi_Minh"},
		"target":{"type":"http","url":"https://example.com/x","headers":{"X-A":"b"},"timeout":"45s","group":"g"},
		"retry":{"max_attempts":7,"base":"20s","max":"2h","also":[408]},"delay_tolerance":"0s",
		"overlap":"queue","catch_up":"all","dst":{"gap":"skip"},"notify":{"topic":"arn:aws:sns:eu-west-1:123456789012:t"}}`)
	spec, err := c.Spec()
	require.NoError(t, err)
	require.NoError(t, spec.Validate(time.Now()))
	require.True(t, spec.Urgent())
	view := jobsapi.JobOf(&job.Job{ID: trigger.NewID(), Spec: spec, Status: job.JobIsActive, Version: 1, Generation: 1})
	raw, err := json.Marshal(view)
	require.NoError(t, err)
	var back jobsapi.Job
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, view, back)
	require.Equal(t, c.Schedule, back.Schedule)
	require.Equal(t, c.Retry, &back.Retry)
	require.Equal(t, c.DelayTolerance, back.DelayTolerance)
	require.Equal(t, c.DST, back.DST)
	require.Equal(t, c.Notify, back.Notify)
	require.Equal(t, "POST", back.Target.Method)
	require.Equal(t, "1h", back.CatchUpWindow.String())
}

func TestTypesOfScheduleAndTargetDoNotMix(t *testing.T) {
	c := create(t, `{"schedule":{"type":"once","expr":"* * * * *"},"dst":{"gap":"skip"},
		"target":{"type":"queue","url":"https://x","arn":"y"},"payload":1,"payload_base64":"AA=="}`)
	_, err := c.Spec()
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	for _, field := range []string{
		"schedule.run_at", "schedule.expr", "dst", "target.url", "target.arn", "target.service", "payload_base64",
	} {
		require.ErrorContains(t, err, field)
	}
}

func TestAPatchReplacesWhatItNames(t *testing.T) {
	c := create(t, `{"schedule":{"type":"cron","expr":"0 9 * * *","tz":"Europe/Berlin"},"dst":{"fold":"both"},
		"target":{"type":"queue","service":"s"},"delay_tolerance":"5m","catch_up":"all","catch_up_window":"3h","payload":{"a":1}}`)
	spec, err := c.Spec()
	require.NoError(t, err)
	j := job.Job{Spec: spec, Status: job.JobIsActive}
	var p jobsapi.PatchJob
	require.NoError(t, jobsapi.Decode([]byte(`{"status":"paused","schedule":{"type":"cron","expr":"0 10 * * *"},
		"delayTolerance":"","catchUp":"latest"}`), &p))
	require.False(t, p.Empty())
	require.NoError(t, p.Apply(&j))
	require.Equal(t, job.JobIsPaused, j.Status)
	require.Equal(t, "0 10 * * *", j.Schedule.Cron)
	require.Equal(t, "UTC", j.Schedule.Zone, "a schedule is replaced as a whole")
	require.Equal(t, spec.Schedule.Policy, j.Schedule.Policy, "dst is a field of its own")
	require.Nil(t, j.Tolerance)
	require.Zero(t, j.CatchUpWindow)
	require.Equal(t, spec.Payload, j.Payload)
	require.True(t, (&jobsapi.PatchJob{}).Empty())
}

func TestNoJobIsEarly(t *testing.T) {
	c := create(t, `{"schedule":{"type":"once","run_at":"2026-03-29T09:00:00.0001+02:00"},"target":{"type":"queue","service":"s"}}`)
	spec, err := c.Spec()
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 3, 29, 7, 0, 0, 1e6, time.UTC), spec.Schedule.At)
}

func TestATimeThatNoRunIDHoldsIsRefused(t *testing.T) {
	c := create(t, `{"schedule":{"type":"once","run_at":"1969-12-31T23:59:59Z"},"target":{"type":"queue","service":"s"}}`)
	_, err := c.Spec()
	require.ErrorContains(t, err, "schedule.run_at")
}

func TestABodyOfNothingButFaultsIsAnsweredBriefly(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `%c"x%d":1`, "{,"[min(i, 1)], i)
	}
	var c jobsapi.CreateJob
	err := jobsapi.Decode([]byte(b.String()+"}"), &c)
	require.Len(t, fields(err), 50)
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"schedule":{"type":"once","runAt":"2026-03-29T09:00:00Z"},"target":{"type":"http","url":"https://e.com"},"payload":{"a":[1, 2]}}`,
		`{"schedule":{"type":"cron","expr":"@daily","tz":"UTC"},"target":{"type":"topic"},"payload_base64":"AA==","retry":{"base":"1s"}}`,
		`{"name":null}`, `[]`, `{"retry":{"also":[null]}}`, `{"a":1,"a":2}`, "{\"name\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var c jobsapi.CreateJob
		if jobsapi.Decode(body, &c) != nil {
			return
		}
		if c.Payload != nil {
			require.True(t, json.Valid(c.Payload))
			require.Contains(t, string(body), string(c.Payload), "byte for byte")
		}
		again, err := json.Marshal(c)
		require.NoError(t, err)
		var second jobsapi.CreateJob
		require.NoError(t, jobsapi.Decode(again, &second), "%s", again)
		a, errA := c.Spec()
		b, errB := second.Spec()
		require.Equal(t, errA == nil, errB == nil)
		a.Payload, b.Payload = nil, nil // encoding compacts it
		if errA == nil {
			require.Equal(t, a, b)
		}
	})
}

func TestAToleranceOfZeroIsUrgentWithOrWithoutUnit(t *testing.T) {
	for _, zero := range []string{"0", "0s"} {
		d, err := jobsapi.ParseDuration(zero)
		require.NoError(t, err)
		require.Zero(t, d)
	}
	for _, bad := range []string{"", "00", "1", "-1s", "s", "1 s"} {
		_, err := jobsapi.ParseDuration(bad)
		require.Error(t, err, bad)
	}
}
