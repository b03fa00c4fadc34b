package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

const cronJob = `{"id":"J1","status":"active","name":"morning report","tenant":"acme","labels":{"team":"pay","a":"b"},
"schedule":{"type":"cron","expr":"0 9 * * 1-5","tz":"Asia/Ho_Chi_Minh"},"dst":{"gap":"skip"},
"target":{"type":"http","url":"https://example.com/hook","method":"POST","headers":{"X-A":"1"},"timeout":"30s"},
"retry":{"max_attempts":5,"base":"10s","max":"1h","also":[408]},"overlap":"allow","catch_up":"all","catch_up_window":"2h",
"notify":{"webhook":"https://hooks.example.com/x"},"payload":{"secret":1},"payload_bytes":12,
"created_at":"1999-12-01T00:00:00Z","updated_at":"1999-12-02T00:00:00Z","version":3,"generation":2,
"next_run_at":"2000-01-03T02:00:00Z","next_run_id":"R9","last_run":{"id":"R8","status":"DEAD","scheduled_at":"1999-12-31T02:00:00Z"}}`

const onceJob = `{"id":"J2","status":"paused","tenant":"acme","schedule":{"type":"once","run_at":"2000-01-01T00:05:00Z"},
"target":{"type":"queue","service":"payments"},"retry":{"max_attempts":5,"base":"10s","max":"1h"},"overlap":"allow","catch_up":"latest",
"created_at":"1999-12-01T00:00:00Z","updated_at":"1999-12-02T00:00:00Z","version":1,"generation":1}`

func TestJobsAreShownAsATableAndInFull(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/jobs?label=team%3Dpay&limit=100&status=paused", ok(`{"items":[`+cronJob+`,`+onceJob+`]}`))
		r.run("jobs", "list", "--status", "PAUSED", "--label", "team=pay").prints(`
ID  STATUS  SCHEDULE                       TARGET                         NEXT                      NAME
J1  active  0 9 * * 1-5 Asia/Ho_Chi_Minh   POST https://example.com/hook  2000-01-03T02:00:00.000Z  morning report
J2  paused  once 2000-01-01T00:05:00.000Z  queue payments                 -                         -
`)
		r.says("GET /v1/jobs/J1", ok(cronJob))
		r.run("jobs", "get", "J1").prints(`
job            J1
status         active
name           morning report
tenant         acme
labels         a=b team=pay
schedule       0 9 * * 1-5 Asia/Ho_Chi_Minh
clock changes  gap skip
target         POST https://example.com/hook
headers        X-A=1
call timeout   30s
retry          5 attempts, waits up to 10s, doubled up to 1h; also after [408]
overlap        allow
catch up       all 2h
notify         https://hooks.example.com/x
payload        12 bytes
next run       2000-01-03T02:00:00.000Z (in 2d 2h)
next run id    R9
last run       DEAD 1999-12-31T02:00:00.000Z R8
created        1999-12-01T00:00:00.000Z
changed        1999-12-02T00:00:00.000Z
version        3, generation 2
`)
		require.Contains(t, r.run("jobs", "get", "J1", "--show-payload").out, `{"secret":1}`)
		require.NotContains(t, r.run("jobs", "get", "J1", "-o", "json").keys(), "payload")
		require.Contains(t, r.run("jobs", "get", "J1", "-o", "json", "--show-payload").keys(), "payload")
	})
}

func TestListsGoOnOverPagesUntilTheyHaveWhatWasAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		one := func(id string) string { return strings.Replace(onceJob, "J2", id, 1) }
		r.says("GET /v1/jobs?limit=2", ok(`{"items":[],"next_cursor":"c1"}`))
		r.says("GET /v1/jobs?cursor=c1&limit=2", ok(`{"items":[`+one("a")+`],"next_cursor":"c2"}`))
		r.says("GET /v1/jobs?cursor=c2&limit=1", ok(`{"items":[`+one("b")+`],"next_cursor":"c3"}`))
		var jobs []struct{ ID string }
		r.run("jobs", "list", "--limit", "2", "--json").is(cli.ExitOK, "go on with --cursor c3").json(&jobs)
		require.Len(t, jobs, 2)
		r.says("GET /v1/jobs?cursor=c3&limit=100", ok(`{"items":[`+one("c")+`],"next_cursor":"c4"}`))
		r.says("GET /v1/jobs?cursor=c4&limit=100", ok(`{"items":[]}`))
		res := r.run("jobs", "list", "--limit", "1", "--all", "--cursor", "c3", "--json").json(&jobs)
		require.Len(t, jobs, 1)
		require.Empty(t, res.err)
		r.says("GET /v1/jobs?limit=100", ok(`{"items":null}`))
		require.Equal(t, "[]\n", r.run("jobs", "list", "--json").out)
		require.Equal(t, "no jobs\n", r.run("jobs", "list").err)
		r.run("jobs", "list", "--limit", "0").is(cli.ExitUsage, "--limit 0: want 1 or more")
		r.run("jobs", "list", "--status", "dead").is(cli.ExitUsage, "want one of active, paused, deleted")
	})
}

func TestAJobIsCreatedByFlags(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		created := strings.Replace(cronJob, `"version"`, `"fire_times":["2000-01-03T02:00:00Z","2000-01-04T02:00:00Z"],"warnings":[{"code":"gap","message":"mind the gap"}],"version"`, 1)
		r.says("POST /v1/jobs", answer{http.StatusCreated, created})
		args := []string{
			"jobs", "create", "--cron", "0 9 * * 1-5", "--tz", "Asia/Ho_Chi_Minh", "--gap", "skip", "--url", "https://example.com/hook", "-H", "X-A=1",
			"--call-timeout", "1m", "--payload", `{"n":1}`, "--label", "team=pay", "--name", "morning report", "--tenant", "acme",
			"--retry-max", "7", "--retry-base", "5s", "--retry-also", "408,425", "--tolerance", "0s", "--catch-up", "all", "--catch-up-window", "1d",
			"--overlap", "skip", "--notify-webhook", "https://hooks.example.com/x", "--idempotency-key", "k1",
		}
		r.run(args...).prints(`
created J1
next run 2000-01-03T02:00:00.000Z (in 2d 2h)
run R9
  Mon 2000-01-03T09:00:00+07:00
  Tue 2000-01-04T09:00:00+07:00
`).is(cli.ExitOK, "warning: mind the gap (gap)")
		require.Equal(t, []string{`POST /v1/jobs {"name":"morning report","tenant":"acme","labels":{"team":"pay"},` +
			`"schedule":{"type":"cron","expr":"0 9 * * 1-5","tz":"Asia/Ho_Chi_Minh"},` +
			`"target":{"type":"http","url":"https://example.com/hook","headers":{"X-A":"1"},"timeout":"1m"},"payload":{"n":1},` +
			`"retry":{"max_attempts":7,"base":"5s","also":[408,425]},"delay_tolerance":"0s","overlap":"skip","catch_up":"all",` +
			`"catch_up_window":"24h","dst":{"gap":"skip"},"notify":{"webhook":"https://hooks.example.com/x"}}`}, r.asked)
		require.Equal(t, "k1", r.headers[0].Get("Idempotency-Key"))
		asked := strings.TrimPrefix(r.asked[0], "POST /v1/jobs ")
		require.Equal(t, asked+"\n", r.run(append(args, "--dry-run")...).out)
		require.Empty(t, r.asked, "a dry run sends nothing")
	})
}

func TestACreateCanBeRepeatedByTheKeyThatItPrints(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("POST /v1/jobs", answer{http.StatusCreated, onceJob})
		res := r.run("jobs", "create", "--in", "5m", "--queue", "payments", "--json").is(cli.ExitOK, "to repeat this call: --idempotency-key ")
		first, key := r.asked[0], r.headers[0].Get("Idempotency-Key")
		require.Contains(t, first, `"run_at":"2000-01-01T00:05:00Z"`)
		_, again, _ := strings.Cut(strings.TrimSpace(res.err), "call: ")
		require.Equal(t, "--idempotency-key "+key+" --at 2000-01-01T00:05:00Z", again)
		r.run(append([]string{"jobs", "create", "--queue", "payments"}, strings.Fields(again)...)...).is(cli.ExitOK, "")
		require.Equal(t, first, r.asked[0])
		require.Equal(t, key, r.headers[0].Get("Idempotency-Key"))
		require.NotEqual(t, key, func() string {
			r.run("jobs", "create", "--at", "in 5m", "--queue", "payments")
			require.Equal(t, first, r.asked[0], "the same time in words")
			return r.headers[0].Get("Idempotency-Key")
		}())
	})
}

func TestPayloadsArriveByteForByte(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("POST /v1/jobs", answer{http.StatusCreated, onceJob})
		path := filepath.Join(t.TempDir(), "job.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"schedule":{"type":"once","runAt":"2001-01-01T00:00:00Z"},
			"target":{"type":"queue","service":"s"},"payload":{"n": 1}}`), 0o600))
		for _, tc := range []struct {
			args      []string
			in, field string
			want      any
		}{
			{[]string{"--payload", `{"n":1}`}, "", "payload", map[string]any{"n": 1.0}},
			{[]string{"--payload", "-"}, `{"n": 1}`, "payload_base64", "eyJuIjogMX0="}, // a space that JSON encoding would lose
			{[]string{"--payload", `"<b>"`}, "", "payload_base64", "IjxiPiI="},
			{[]string{"--payload", "plain"}, "", "payload_base64", "cGxhaW4="},
			{[]string{"--file", path}, "", "payload_base64", "eyJuIjogMX0="},
			{[]string{"--file", path, "--payload", "2"}, "", "payload", 2.0},
		} {
			r.host.In = strings.NewReader(tc.in)
			if tc.args[0] != "--file" {
				tc.args = append(tc.args, "--at", "now", "--queue", "s")
			}
			r.run(append([]string{"jobs", "create"}, tc.args...)...).is(cli.ExitOK, "")
			var body map[string]any
			require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(r.asked[0], "POST /v1/jobs ")), &body))
			require.Equal(t, tc.want, body[tc.field], "%v", tc.args)
		}
	})
}

func TestAJobThatIsDefinedWronglyNamesFieldAndFlag(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		path := filepath.Join(t.TempDir(), "job.json")
		for text, says := range map[string]string{
			`{"schedule":{"typo":1}}`: "schedule.typo: unknown field",
			"{\n\n\"schedule\":}":     "line 3: not JSON",
			`{"retry":{"base":"5"}}`:  "retry.base: ",
		} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			r.run("jobs", "create", "-f", path).is(cli.ExitRefused, "--file: "+path+": "+says)
		}
		for _, tc := range []struct {
			args []string
			code int
			says string
		}{
			{nil, cli.ExitUsage, "give --at, --in or --cron"},
			{[]string{"--in", "5m"}, cli.ExitUsage, "give --url, --queue or --topic"},
			{[]string{"--in", "5m", "--cron", "@daily"}, cli.ExitUsage, "[at in cron]"},
			{[]string{"--url", "u", "--queue", "q"}, cli.ExitUsage, "[queue url]"},
			{[]string{"--in", "5m", "--queue", "q", "--tolerance", "5"}, cli.ExitUsage, "--tolerance"},
			{[]string{"--in", "5m", "--url", "u", "--header", "X"}, cli.ExitUsage, "want name=value"},
			{[]string{"--at", "tomorrow", "--queue", "q"}, cli.ExitUsage, "want a time with its zone"},
			{[]string{"--file", "-", "--payload", "-"}, cli.ExitUsage, "read once"},
			{[]string{"--file", "/nowhere/at/all"}, cli.ExitRefused, "--file: open /nowhere/at/all"},
			{[]string{"--in", "5m", "--queue", "q", "--fold", "last"}, cli.ExitUsage, "want one of first, both"},
		} {
			require.Empty(t, r.run(append([]string{"jobs", "create"}, tc.args...)...).is(tc.code, tc.says).out)
			require.Empty(t, r.asked)
		}
		r.says("POST /v1/jobs", problem(422, `{"code":"invalid","detail":"the request is not valid","errors":[
			{"location":"target.url","message":"a loopback address"},{"location":"labels.x","message":"too long"},{"location":"odd","message":"bad"}]}`))
		r.run("jobs", "create", "--in", "5m", "--url", "http://127.0.0.1").is(cli.ExitRefused,
			"myosin: target.url (--url): a loopback address\nmyosin: labels.x (--label): too long\nmyosin: odd: bad\n")
	})
}

func TestAnEditReplacesWhatItNamesAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/jobs/J1", ok(cronJob)).says("PATCH /v1/jobs/J1", ok(cronJob))
		edit := func(args ...string) string {
			t.Helper()
			r.run(append([]string{"jobs", "edit", "J1"}, args...)...).is(cli.ExitOK, "")
			require.Len(t, r.asked, 2)
			require.Equal(t, `"3"`, r.headers[1].Get("If-Match"), "nobody changed it meanwhile")
			return strings.TrimPrefix(r.asked[1], "PATCH /v1/jobs/J1 ")
		}
		require.JSONEq(t, `{"schedule":{"type":"cron","expr":"30 9 * * *","tz":"Asia/Ho_Chi_Minh"}}`, edit("--cron", "30 9 * * *"))
		require.JSONEq(t, `{"schedule":{"type":"cron","expr":"0 9 * * 1-5","tz":"UTC"},"dst":{"gap":"skip","fold":"both"}}`, edit("--tz", "UTC", "--fold", "both"))
		require.JSONEq(t, `{"schedule":{"type":"once","run_at":"2000-01-01T01:00:00Z"}}`, edit("--in", "1h"))
		require.JSONEq(t, `{"target":{"type":"http","url":"https://example.com/2","method":"POST","headers":{"X-B":"2"},"timeout":"30s"}}`,
			edit("--url", "https://example.com/2", "--header", "X-B=2", "--remove-header", "X-A"))
		require.JSONEq(t, `{"target":{"type":"queue","service":"q"}}`, edit("--queue", "q"))
		require.JSONEq(t, `{"labels":{"a":"b","new":"1"}}`, edit("--label", "new=1", "--remove-label", "team"))
		require.JSONEq(t, `{"retry":{"max_attempts":9,"base":"10s","max":"1h","also":[408]}}`, edit("--retry-max", "9"))
		require.JSONEq(t, `{"payload_base64":"","name":"","delay_tolerance":"","notify":{}}`,
			edit("--payload", "", "--name", "", "--tolerance", "none", "--notify-webhook", ""))
		require.JSONEq(t, `{"delay_tolerance":"5m","overlap":"queue","catch_up":"skip"}`,
			edit("--tolerance", "5m", "--overlap", "queue", "--catch-up", "skip"))

		r.run("jobs", "edit", "J1").is(cli.ExitUsage, "nothing to change")
		r.run("jobs", "edit", "J1", "--remove-label", "nope").is(cli.ExitUsage, "no such label")
		r.host.In = strings.NewReader(`{"catchUp":"skip"}`)
		r.run("jobs", "edit", "J1", "-f", "-", "--if-version", "7").is(cli.ExitOK, "")
		require.Equal(t, []string{`PATCH /v1/jobs/J1 {"catch_up":"skip"}`}, r.asked)
		require.Equal(t, `"7"`, r.headers[0].Get("If-Match"))
		r.run("jobs", "edit", "J1", "-f", "-", "--name", "x").is(cli.ExitUsage, "not both")
		r.says("PATCH /v1/jobs/J1", problem(412, `{"code":"version","detail":"the job is of version 4"}`))
		r.run("jobs", "edit", "J1", "--name", "x").is(cli.ExitConflict, "the job is of version 4: somebody else changed it")
	})
}

func TestJobsArePausedResumedAndDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("PATCH /v1/jobs/J2", ok(onceJob)).says("DELETE /v1/jobs/J2", ok(strings.Replace(onceJob, "paused", "deleted", 1)))
		r.run("jobs", "pause", "J2").prints("paused J2\nstatus paused\n")
		require.Equal(t, `PATCH /v1/jobs/J2 {"status":"paused"}`, r.asked[0])
		r.run("jobs", "resume", "J2", "--if-version", "4").is(cli.ExitOK, "")
		require.Equal(t, `PATCH /v1/jobs/J2 {"status":"active"}`, r.asked[0])
		require.Equal(t, `"4"`, r.headers[0].Get("If-Match"))
		r.run("jobs", "delete", "J2").is(cli.ExitUsage, "nobody to ask; give --yes")
		require.Empty(t, r.asked)
		require.Equal(t, "deleted", r.run("jobs", "delete", "J2", "--yes", "--json").is(cli.ExitOK, "").keys()["status"])
	})
}

func TestTheKeyIsSentAndNeverShown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, []byte("from-file\n"), 0o600))
		r.says("GET /v1/jobs/J1", problem(401, `{"detail":"give an API key"}`))
		for _, tc := range []struct {
			env, flag, want string
		}{{"from-env", "", "Bearer from-env"}, {"from-env", "from-flag", "Bearer from-flag"}, {"@" + path, "", "Bearer from-file"}, {"", "", ""}} {
			r.env["MYOSIN_API_KEY"] = tc.env
			res := r.run("jobs", "get", "J1", "-v", "--key", tc.flag).is(cli.ExitDenied, "give an API key (--key or MYOSIN_API_KEY)")
			require.Equal(t, tc.want, r.headers[0].Get("Authorization"))
			require.Contains(t, res.err, "/v1/jobs/J1", "-v tells the calls")
			require.NotContains(t, res.err, "from-")
		}
		r.env["MYOSIN_API_KEY"] = "geheim\x00"
		require.NotContains(t, r.run("jobs", "get", "J1").is(cli.ExitUsage, "--key: want printable ASCII").err, "geheim")
		require.NotContains(t, r.run("jobs", "--help").out, "geheim")
		r.run("jobs", "get", "J1", "--key", "@/nowhere/at/all").is(cli.ExitUsage, "/nowhere/at/all")
	})
}

func TestEachKindOfAnswerHasItsExitCode(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		for status, code := range map[int]int{
			400: cli.ExitRefused, 401: cli.ExitDenied, 403: cli.ExitDenied, 404: cli.ExitNotFound, 409: cli.ExitConflict, 412: cli.ExitConflict,
			413: cli.ExitRefused, 422: cli.ExitRefused, 429: cli.ExitUnavailable, 500: cli.ExitFailed, 503: cli.ExitUnavailable, 302: cli.ExitFailed,
		} {
			r.says("GET /v1/jobs/J1", problem(status, `{"detail":"so it is"}`))
			r.run("jobs", "get", "J1").is(code, "")
		}
		r.says("GET /v1/jobs/J1", answer{})
		r.run("jobs", "get", "J1").is(cli.ExitUnavailable, "cannot reach http://127.0.0.1:8080")
		require.Len(t, r.asked, 4, "a look-up is tried again")
		r.says("POST /v1/jobs/J1/run", answer{})
		r.run("jobs", "run", "J1").is(cli.ExitUnavailable, "it may have been done: look before you repeat it")
		require.Len(t, r.asked, 1, "each call is a run")
		r.says("GET /v1/jobs/J1", ok("<html>"))
		r.run("jobs", "get", "J1").is(cli.ExitFailed, "not understood")
	})
}

func TestTheShellIsOfferedJobsAndWords(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/jobs?limit=100", ok(`{"items":[`+cronJob+`,`+onceJob+`]}`))
		const jobs = "J1\tmorning report\nJ2\tonce 2000-01-01T00:05:00.000Z queue payments\n:4\n"
		require.Equal(t, jobs, r.run("__complete", "jobs", "pause", "").out)
		require.Equal(t, jobs, r.run("__complete", "dlq", "redrive", "--job", "").out)
		require.Equal(t, ":4\n", r.run("__complete", "jobs", "pause", "J1", "").out, "one is enough")
		require.Equal(t, "allow\nskip\nqueue\n:4\n", r.run("__complete", "jobs", "create", "--overlap", "").out)
		require.Equal(t, "table\njson\n:4\n", r.run("__complete", "jobs", "list", "-o", "").out)
		r.says("GET /v1/jobs?limit=100", problem(401, `{}`))
		require.Equal(t, ":4\n", r.run("__complete", "jobs", "pause", "").out)
	})
}

func TestTheAPIIsFoundByFlagOrEnvironment(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(onceJob)) }))
	t.Cleanup(srv.Close)
	run := func(env string, args ...string) result {
		t.Helper()
		var out, errs strings.Builder
		code := cli.Run(t.Context(), cli.Host{Out: &out, Err: &errs, Env: func(name string) (string, bool) {
			return env, name == "MYOSIN_API"
		}}, append([]string{"jobs", "get", "J2", "--json"}, args...))
		return result{t, code, out.String(), errs.String()}
	}
	require.Equal(t, "J2", run(srv.URL).is(cli.ExitOK, "").keys()["id"])
	require.Equal(t, "J2", run("http://127.0.0.1:1", "--api", srv.URL+"/").is(cli.ExitOK, "").keys()["id"])
	run("http://127.0.0.1:1").is(cli.ExitUnavailable, "cannot reach http://127.0.0.1:1: connection refused (--api or MYOSIN_API says where the API is)")
	run("", "--api", "nonsense").is(cli.ExitUsage, "--api: ")
	var errs strings.Builder
	code := cli.Run(t.Context(), cli.Host{Out: &errs, Err: &errs}, []string{"jobs", "run", "J2", "--api", "http://127.0.0.1:1"})
	require.Equal(t, cli.ExitUnavailable, code)
	require.NotContains(t, errs.String(), "may have been done", "nothing was sent")
}
