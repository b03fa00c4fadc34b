package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/api/app"
)

// locations returns the fields that a problem names.
func (o *office) locations(body string, headers ...string) []string {
	o.t.Helper()
	var out []string
	for _, e := range o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/jobs", body, headers...).Errors {
		out = append(out, e.Location)
	}
	return out
}

func TestAJobThatCannotBeIsRefusedByTheNamesOfItsFields(t *testing.T) {
	o := newOffice(t, true)
	admin := o.key(access.Platform, access.Admin)
	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{"contact":{"webhook":"https://example.com/hook"},
		"allow_services":["hello"],"allow_topics":["arn:aws:sns:eu-west-1:123456789012:ours-*"],"allow_ranges":["10.1.0.0/16"]}`, "Authorization", admin)
	key, lonely := o.key("acme", access.Write), o.key("lonely", access.Write)
	const when = `"schedule":{"type":"cron","expr":"0 9 * * *"}`
	for body, want := range map[string][]string{
		`{` + when + `,"target":{"type":"http","url":"http://127.0.0.1/x"}}`:                                                  {"target.url"},
		`{` + when + `,"target":{"type":"http","url":"http://169.254.169.254/latest"}}`:                                       {"target.url"},
		`{` + when + `,"target":{"type":"http","url":"http://10.2.0.1/"}}`:                                                    {"target.url"},
		`{` + when + `,"target":{"type":"http","url":"https://example.com","method":"TRACE"}}`:                                {"target.method"},
		`{` + when + `,"target":{"type":"http","url":"https://example.com","headers":{"Host":"x"}}}`:                          {"target.headers.Host"},
		`{` + when + `,"target":{"type":"http","url":"https://example.com","timeout":"10m"}}`:                                 {"target.timeout"},
		`{` + when + `,"target":{"type":"queue","service":"payments"}}`:                                                       {"target.service"},
		`{` + when + `,"target":{"type":"queue","service":"runs"}}`:                                                           {"target.service"},
		`{` + when + `,"target":{"type":"queue","service":"nobody"}}`:                                                         {"target.service"},
		`{` + when + `,"target":{"type":"topic","arn":"arn:aws:sns:eu-west-1:123456789012:theirs"}}`:                          {"target.arn"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"notify":{"webhook":"http://127.0.0.1"}}`:                  {"notify.webhook"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"notify":{"topic":"arn:aws:sns:eu-west-1:1:x"}}`:           {"notify.topic"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"retry":{"base":"2h","max":"1h"}}`:                         {"retry.base"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"retry":{"also":[410,500]}}`:                               {"retry.also[0]", "retry.also[1]"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"delay_tolerance":"25h"}`:                                  {"delay_tolerance"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"catch_up_window":"1h"}`:                                   {"catch_up_window"},
		`{"schedule":{"type":"cron","expr":"0 0 30 2 *"},"target":{"type":"queue","service":"hello"}}`:                        {"schedule.expr"},
		`{"schedule":{"type":"cron","expr":"@daily","tz":"Mars/Base"},"target":{"type":"queue","service":"hello"}}`:           {"schedule.tz"},
		`{"schedule":{"type":"once"},"target":{"type":"queue"},"when":1}`:                                                     {"when"},
		`{` + when + `,"target":{"type":"queue","service":"hello"},"payload_base64":"` + strings.Repeat("AAAA", 90000) + `"}`: {"payload"},
	} {
		require.Equal(t, want, o.locations(body, "Authorization", key), body[:min(len(body), 200)])
	}
	for _, target := range []string{
		`{"type":"http","url":"http://10.1.2.3/"}`, `{"type":"queue","service":"hello"}`, `{"type":"topic","arn":"arn:aws:sns:eu-west-1:123456789012:ours-1"}`,
	} {
		ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", `{`+when+`,"target":`+target+`}`, "Authorization", key)
	}
	require.Equal(t, []string{"notify"}, o.locations(`{`+when+`,"target":{"type":"http","url":"https://example.com"}}`, "Authorization", lonely))

	j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", `{`+when+`,"target":{"type":"queue","service":"hello"}}`, "Authorization", key)
	p := o.problem(http.StatusUnprocessableEntity, http.MethodPatch, "/v1/jobs/"+j.ID, `{"target":{"type":"queue","service":"payments"}}`, "Authorization", key)
	require.Equal(t, "target.service", p.Errors[0].Location)
	o.problem(http.StatusUnprocessableEntity, http.MethodPatch, "/v1/jobs/"+j.ID, `{}`, "Authorization", key)

	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{}`, "Authorization", admin)
	paused := ok[jobsapi.Job](o, http.StatusOK, http.MethodPatch, "/v1/jobs/"+j.ID, `{"status":"paused"}`, "Authorization", key)
	require.Equal(t, "paused", paused.Status, "what is not allowed any more can still be paused")
	o.problem(http.StatusUnprocessableEntity, http.MethodPatch, "/v1/jobs/"+j.ID, `{"notify":{}}`, "Authorization", key)
	o.problem(http.StatusPreconditionFailed, http.MethodPatch, "/v1/jobs/"+j.ID, `{"name":"x"}`, "Authorization", key, "If-Match", "nonsense")
	code, _, body := o.call(http.MethodPost, "/v1/jobs", strings.Repeat(" ", 500<<10), "Authorization", key)
	require.Equal(t, http.StatusRequestEntityTooLarge, code, body)
}

func TestWithoutKeysMoreIsAllowedAndSaid(t *testing.T) {
	o := newOffice(t, false)
	for target, want := range map[string][]string{
		`{"type":"http","url":"http://127.0.0.1:9/x"}`:                         {"past", "no_contact", "loopback"},
		`{"type":"queue","service":"payments"}`:                                {"past", "no_contact", "not_restricted"},
		`{"type":"topic","arn":"arn:aws:sns:eu-west-1:123456789012:anything"}`: {"past", "no_contact", "not_restricted"},
	} {
		j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs",
			`{"schedule":{"type":"once","run_at":"2026-11-30T11:00:00Z"},"target":`+target+`}`)
		var codes []string
		for _, w := range j.Warnings {
			codes = append(codes, w.Code)
		}
		require.Equal(t, want, codes)
	}
	require.Equal(t, []string{"target.service"}, o.locations(`{"schedule":{"type":"cron","expr":"@daily"},"target":{"type":"queue","service":"runs-urgent"}}`))
}

func TestDeadRunsAreListedAndRedriven(t *testing.T) {
	o := newOffice(t, false)
	j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody)
	var ids []string
	for range 5 {
		ids = append(ids, o.dead(j.ID))
		o.clock.add(time.Minute)
	}
	page := ok[jobsapi.Page[jobsapi.DeadLetter]](o, http.StatusOK, http.MethodGet, "/v1/dead-letters?limit=2", "")
	require.Len(t, page.Items, 2)
	require.Equal(t, ids[4], page.Items[0].ID, "newest death first")
	require.Equal(t, "answered 404", page.Items[0].LastError)
	require.Equal(t, "nothing here", page.Items[0].Attempts[0].Response)
	require.JSONEq(t, `{"a":1}`, string(page.Items[0].Payload))

	one := ok[jobsapi.RedriveAnswer](o, http.StatusOK, http.MethodPost, "/v1/dead-letters/redrive", `{"runs":["`+ids[0]+`","nonsense"]}`)
	require.Equal(t, []jobsapi.Redriven{{Run: ids[0], As: ids[0] + "-r1"}}, one.Redriven)
	require.Equal(t, "nonsense", one.Failed[0].Run)
	again := ok[jobsapi.RedriveAnswer](o, http.StatusOK, http.MethodPost, "/v1/dead-letters/redrive", `{"runs":["`+ids[0]+`"]}`)
	require.Equal(t, one.Redriven, again.Redriven, "twice makes one")
	require.Equal(t, ids[0], ok[jobsapi.Run](o, http.StatusOK, http.MethodGet, "/v1/runs/"+ids[0]+"-r1", "").OriginalRun)

	for _, body := range []string{`{}`, `{"runs":["x"],"all":true}`} {
		o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/dead-letters/redrive", body)
	}
	since := noon.Add(90 * time.Second).Format(time.RFC3339)
	var redriven []string
	for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
		require.Less(t, n, 10)
		a := ok[jobsapi.RedriveAnswer](o, http.StatusOK, http.MethodPost, "/v1/dead-letters/redrive",
			`{"job":"`+j.ID+`","from":"`+since+`","limit":2,"cursor":"`+cursor+`"}`)
		require.Empty(t, a.Failed)
		for _, r := range a.Redriven {
			redriven = append(redriven, r.Run)
		}
		cursor = a.NextCursor
	}
	require.ElementsMatch(t, ids[2:], redriven)
	left := ok[jobsapi.Page[jobsapi.DeadLetter]](o, http.StatusOK, http.MethodGet, "/v1/dead-letters", "")
	require.Len(t, left.Items, 1)
	require.Equal(t, ids[1], left.Items[0].ID)
}

func TestTheForecastIsShownByService(t *testing.T) {
	o := newOffice(t, false)
	f := ok[jobsapi.Forecast](o, http.StatusOK, http.MethodGet, "/v1/forecast?service=hello&service=payments&minutes=5", "")
	require.Equal(t, []jobsapi.ForecastSeries{
		{Service: "hello", Points: []jobsapi.ForecastPoint{{Minute: noon, Jobs: 7}}}, {Service: "payments", Points: []jobsapi.ForecastPoint{}},
	}, f.Items)
	require.Len(t, ok[jobsapi.Forecast](o, http.StatusOK, http.MethodGet, "/v1/forecast", "").Items, 4)
	o.problem(http.StatusUnprocessableEntity, http.MethodGet, "/v1/forecast?minutes=0", "")
}

// Whatever comes, no operation fails, nor answers what it does not describe.
func TestNonsenseIsAnsweredAsDescribed(t *testing.T) {
	o := newOffice(t, false)
	_, _, raw := o.call(http.MethodGet, "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Responses  map[string]json.RawMessage
			Body       json.RawMessage `json:"requestBody"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &doc))
	texts := []string{
		"x", "..", "%00", "%F0%9F%92%A9", strings.Repeat("a", 300), "-1", trigger.NewID().String(),
		trigger.NewID().String() + "_000000000000000-1", trigger.NewID().String() + "_001796040000000-1-m%20", "*", "%2F", "%22",
	}
	bodies := []string{
		"", "{", "null", "[]", `"a"`, "{}", `{"x":1}`, `{"attempt":1,"outcome":"success"}`, `{"schedule":{"type":"cron","expr":"* * * * *"}}`,
		`{"schedule":{"type":"once","run_at":"0001-01-01T00:00:00Z"},"target":{"type":"http","url":"\u0000"}}`, "{\"name\":\"\xff\"}",
		`{"schedule":{"type":"cron","expr":"* * * * *","tz":"../../etc/passwd"},"target":{"type":"http","url":"http://[::1"},"labels":{"":""}}`,
		`{"all":true,"cursor":"e30="}`, `{"role":"admin","tenant":"*"}`, `{"rates":{"host:x":1e400}}`, `{"allow_ranges":["0.0.0.0/0"]}`,
	}
	seen := 0
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, op := range doc.Paths[path] {
			if strings.HasPrefix(path, "/v1/triggers") || strings.HasPrefix(path, "/v1/services") || strings.HasPrefix(path, "/v1/partitions") {
				continue
			}
			try := func(at, body string) {
				code, _, answer := o.call(strings.ToUpper(method), at, body)
				seen++
				require.Less(t, code, 500, "%s %s %s: %s", method, at, body, answer)
				if code == http.StatusMovedPermanently || code == http.StatusTemporaryRedirect || at != path && code == http.StatusNotFound {
					return // a path of another shape
				}
				require.Contains(t, op.Responses, strconv.Itoa(code), "%s %s %s: %s", method, at, body, answer)
			}
			for _, text := range texts {
				at := path
				for _, p := range op.Parameters {
					at = strings.ReplaceAll(at, "{"+p.Name+"}", text)
				}
				try(at, "{}")
				q := url.Values{}
				for _, p := range op.Parameters {
					if p.In == "query" {
						q.Set(p.Name, must(url.PathUnescape(text)))
						try(at+"?"+q.Encode(), "{}")
						q.Del(p.Name)
					}
				}
			}
			if op.Body != nil {
				for _, body := range bodies {
					try(strings.ReplaceAll(path, "{id}", trigger.NewID().String()), body)
				}
			}
		}
	}
	require.Greater(t, seen, 500)
	require.NotContains(t, o.log.String(), "level=ERROR")
}

// failing is a store whose reads of jobs fail.
type failing struct {
	app.JobReads
	err error
}

func (f *failing) Job(context.Context, trigger.ID) (job.Job, error) { return job.Job{}, f.err }

func TestAStoreThatFailsIsNotToldOf(t *testing.T) {
	o := newOffice(t, false)
	reads := &failing{JobReads: o.jobs, err: errors.New("table of account 123456789012 is gone")}
	options := app.HandlerOptions{
		Jobs: broken{}, Services: o.services, Partitions: o.partitions, Now: o.clock.now, Log: slog.New(slog.NewTextHandler(o.log, nil)),
		Managed: &app.Managed{
			Jobs: o.control, Runs: o.control, Reads: reads, Records: o.jobs, Audits: o.jobs, Guard: target.NewGuard(target.GuardOptions{}),
		},
	}
	h, err := app.NewHandler(options)
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o.url = srv.URL
	path := "/v1/jobs/" + trigger.NewID().String()
	p := o.problem(http.StatusInternalServerError, http.MethodGet, path, "")
	require.Empty(t, p.Detail)
	require.Contains(t, o.log.String(), "123456789012")
	reads.err = jobstore.ErrBusy
	code, head, _ := o.call(http.MethodGet, path, "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "1", head.Get("Retry-After"))
	o.problem(http.StatusNotFound, http.MethodGet, "/v1/secrets", "")  // nothing seals them
	o.problem(http.StatusNotFound, http.MethodGet, "/v1/forecast", "") // nothing counts

	options.Managed = &app.Managed{Jobs: o.control}
	_, err = app.NewHandler(options)
	for _, want := range []string{"runs", "reads", "records", "audits", "guard"} {
		require.ErrorContains(t, err, "managed "+want+": missing")
	}
}
