package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

// runJSON is a run in a state, with more fields.
func runJSON(status, more string) string {
	return `{"id":"R1","job":"J1","tenant":"acme","status":"` + status + `","kind":"manual","scheduled_at":"2000-01-01T00:00:00Z","generation":1` + more + `}`
}

func TestRunsAreListedAndShownWithTheirAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/jobs/J1/runs?limit=100&status=DEAD", ok(`{"items":[`+
			runJSON("DEAD", `,"attempt":2,"reason":"attempts used up","redriven_as":"R7","ended_at":"2000-01-01T00:01:00Z"`)+`,`+
			runJSON("SKIPPED", `,"attempt":0,"reason":"catch_up","skipped":{"from":"1999-12-01T00:00:00Z","until":"1999-12-02T00:00:00Z","count":9}`)+`]}`))
		r.run("runs", "list", "J1", "--status", "dead").prints(`
SCHEDULED                 STATUS   KIND    ATTEMPT  ENDED                     RUN  REASON
2000-01-01T00:00:00.000Z  DEAD     manual  2        2000-01-01T00:01:00.000Z  R1   attempts used up (redriven)
2000-01-01T00:00:00.000Z  SKIPPED  manual  0        -                         R1   catch_up (9, until 1999-12-02T00:00:00.000Z)
`)
		r.says("GET /v1/runs/R1", ok(runJSON("RETRY", `,"attempt":2,"failures":1,"crashes":1,"not_before":"2000-01-01T00:00:10Z","attempts":[
			{"number":1,"start":"1999-12-31T23:59:00Z","end":"1999-12-31T23:59:01.5Z","status_code":503,"error":"status 503","response_excerpt":"busy\u001b[31m"},
			{"number":2,"start":"1999-12-31T23:59:30Z"}]`)))
		r.run("runs", "get", "R1").prints(`
run         R1
job         J1
tenant      acme
status      RETRY
kind        manual
scheduled   2000-01-01T00:00:00.000Z (in 0s)
attempt     2
failures    1
crashes     1
not before  2000-01-01T00:00:10.000Z (in 10s)
attempt 1   1999-12-31T23:59:00.000Z, 1.5s, status 503, status 503, answered "busy\x1b[31m"
attempt 2   1999-12-31T23:59:30.000Z, under way
`)
		r.says("POST /v1/runs/R1/cancel", ok(runJSON("CANCELLED", "")), ok(runJSON("RUNNING", `,"cancel_requested":true`)), problem(409, `{"detail":"the run has ended","state":"DEAD"}`))
		r.run("runs", "cancel", "R1").prints("cancelled R1\n")
		r.run("runs", "cancel", "R1").prints("asked to stop R1\n")
		r.run("runs", "cancel", "R1").is(cli.ExitConflict, "the run has ended (it is DEAD)")
		r.run("runs", "get", "").is(cli.ExitUsage, "RUN is empty")
	})
}

func TestAWatchFollowsARunToItsEndAndExitsByItsOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		for status, want := range map[string]int{"SUCCEEDED": cli.ExitOK, "DEAD": cli.ExitFailed, "CANCELLED": cli.ExitNotRun, "SKIPPED": cli.ExitNotRun} {
			r.says("GET /v1/runs/R1",
				ok(runJSON("SCHEDULED", "")), ok(runJSON("SCHEDULED", "")), ok(runJSON("RUNNING", `,"attempt":1`)),
				ok(runJSON("RETRY", `,"attempt":1,"failures":1,"not_before":"2000-01-01T00:00:10Z","attempts":[{"number":1,"start":"2000-01-01T00:00:00Z","error":"status 503"}]`)),
				ok(runJSON("RUNNING", `,"attempt":2,"accepted":true,"failures":1`)), ok(runJSON(status, `,"attempt":2,"failures":1,"reason":"so it is"`)))
			res := r.run("runs", "watch", "R1", "-o", "json")
			require.Equal(t, want, res.code, res.err)
			require.Equal(t, 5, strings.Count(res.out, "\n"), "a line for each change: %s", res.out)
			if want != cli.ExitOK {
				require.Contains(t, res.err, "run R1 is "+status+": so it is")
			}
		}
	})
}

func TestAWatchIsReadByPeople(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/runs/R1",
			ok(runJSON("QUEUED", "")), ok(runJSON("RETRY", `,"attempt":1,"failures":1,"not_before":"2000-01-01T00:00:10Z","attempts":[{"number":1,"start":"2000-01-01T00:00:00Z","error":"status 503"}]`)),
			ok(runJSON("RUNNING", `,"attempt":2`)), ok(runJSON("RUNNING", `,"attempt":2,"accepted":true`)),
			ok(runJSON("RUNNING", `,"attempt":2,"accepted":true,"cancel_requested":true`)), ok(runJSON("SUCCEEDED", `,"attempt":2`)))
		r.run("runs", "watch", "R1").prints(`
2000-01-01T00:00:00.000Z QUEUED
2000-01-01T00:00:00.250Z RETRY attempt 1, status 503, not before 2000-01-01T00:00:10.000Z
2000-01-01T00:00:00.500Z RUNNING attempt 2
2000-01-01T00:00:00.750Z RUNNING attempt 2, accepted by its target
2000-01-01T00:00:01.000Z RUNNING attempt 2, accepted by its target, asked to stop
2000-01-01T00:00:01.250Z SUCCEEDED attempt 2
`)
	})
}

func TestAWatchOutlivesAnAPIThatIsAwayForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		away := make([]answer, 20)
		r.says("GET /v1/runs/R1", append(append([]answer{ok(runJSON("QUEUED", ""))}, away...), ok(runJSON("SUCCEEDED", "")))...)
		res := r.run("runs", "watch", "R1").is(cli.ExitOK, "asking again")
		require.Equal(t, 1, strings.Count(res.err, "\n"), "said once")
		r.says("GET /v1/runs/R1", ok(runJSON("QUEUED", "")), answer{})
		began := time.Now()
		r.run("runs", "watch", "R1").is(cli.ExitUnavailable, "no progress for 30s (--timeout)")
		require.InDelta(t, 30, time.Since(began).Seconds(), 1)
		r.says("GET /v1/runs/R1", problem(http.StatusNotFound, `{"detail":"no such run"}`))
		r.run("runs", "watch", "R1").is(cli.ExitNotFound, "no such run")
		require.Len(t, r.asked, 1)
	})
}

func TestAWatchEndsAfterForAndAsksNoMoreThanItMust(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/runs/R1", ok(runJSON("SCHEDULED", "")))
		began := time.Now()
		r.run("runs", "watch", "R1", "--for", "1h").is(cli.ExitUnavailable, "run R1 has not ended after 1h0m0s (--for): it is SCHEDULED")
		require.Equal(t, time.Hour, time.Since(began))
		require.InDelta(t, 727, len(r.asked), 3, "every five seconds, once it has slowed down")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx, interrupt := context.WithCancel(ctx)
		time.AfterFunc(time.Second, interrupt)
		r.runIn(ctx, "runs", "watch", "R1").is(cli.ExitInterrupted, "interrupted")
	})
}

func TestWhoeverWaitsForARunGetsItsOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("POST /v1/jobs/J1/run", answer{http.StatusCreated, runJSON("SCHEDULED", "")})
		r.run("jobs", "run", "J1").prints("run R1\n")
		wait := func() {
			r.says("GET /v1/runs/R1", ok(runJSON("RUNNING", `,"attempt":1`)), ok(runJSON("SUCCEEDED", `,"attempt":1`)))
		}
		wait()
		r.run("jobs", "run", "J1", "--wait").prints("run R1\n").is(cli.ExitOK, "RUNNING attempt 1\nSUCCEEDED attempt 1\n")
		wait()
		res := r.run("jobs", "run", "J1", "--wait", "--json").is(cli.ExitOK, "")
		require.Equal(t, 2, strings.Count(res.out, "\n"), "the run as it began, and at its end")
		require.Contains(t, res.out, "SUCCEEDED")

		created := strings.Replace(onceJob, `"version"`, `"next_run_at":"2000-01-01T00:05:00Z","next_run_id":"R1","version"`, 1)
		r.says("POST /v1/jobs", answer{http.StatusCreated, created})
		r.says("GET /v1/runs/R1", ok(runJSON("DEAD", `,"reason":"status 404"`)))
		r.run("jobs", "create", "--in", "5m", "--queue", "q", "--wait").is(cli.ExitFailed, "run R1 is DEAD: status 404")
		r.says("POST /v1/jobs", answer{http.StatusCreated, onceJob})
		r.run("jobs", "create", "--in", "5m", "--queue", "q", "--wait").is(cli.ExitNotRun, "nothing to wait for")
	})
}

func deadJSON(id string) string {
	return `{"id":"` + id + `","job":"J1","tenant":"acme","status":"DEAD","kind":"schedule","scheduled_at":"1999-12-31T00:00:00Z","attempt":5,
"ended_at":"1999-12-31T01:00:00Z","last_error":"status 500","payload":{"secret":1}}`
}

func TestDeadRunsAreListedByFilter(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		const request = "GET /v1/dead-letters?from=1999-12-31T22%3A00%3A00Z&job=J1&limit=100&tenant=acme&until=2000-01-01T00%3A00%3A00Z"
		r.says(request, ok(`{"items":[`+deadJSON("R1")+`]}`))
		filter := []string{"dlq", "list", "--job", "J1", "--from", "2h ago", "--until", "now", "--tenant", "acme"}
		r.run(filter...).prints(`
DIED                      SCHEDULED                 RUN  JOB  ATTEMPT  ERROR
1999-12-31T01:00:00.000Z  1999-12-31T00:00:00.000Z  R1   J1   5        status 500
`)
		require.NotContains(t, r.run(append(filter, "--json")...).is(cli.ExitOK, "").out, "secret")
		require.Contains(t, r.run(append(filter, "--json", "--show-payload")...).out, "secret")
		require.Contains(t, r.run(append(filter, "--show-payload")...).out, `{"secret":1}`)
		r.run("dlq", "list", "--from", "now", "--until", "1h ago").is(cli.ExitUsage, "want a time before --until")
	})
}

func TestDeadRunsAreRedrivenByFilterPageByPage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("POST /v1/dead-letters/redrive",
			ok(`{"redriven":[{"run":"R1","redriven_as":"N1"},{"run":"R2","redriven_as":"N2"}],"failed":[],"next_cursor":"c"}`),
			ok(`{"redriven":[{"run":"R3","redriven_as":"N3"}],"failed":[]}`))
		r.run("dlq", "redrive", "--job", "J1", "--from", "2h ago").is(cli.ExitUsage, "repeat all dead runs of job J1 that died from 2h ago?: there is nobody to ask")
		require.Empty(t, r.asked)
		r.host.ErrTerminal = true
		res := r.run("dlq", "redrive", "--job", "J1", "--from", "2h ago", "--yes").is(cli.ExitOK, "3 redriven")
		require.Contains(t, res.err, "\rredriven: 1\r", "progress")
		require.Equal(t, "R1 redriven as N1\nR2 redriven as N2\nR3 redriven as N3\n", res.out)
		require.Equal(t, []string{
			`POST /v1/dead-letters/redrive {"job":"J1","from":"1999-12-31T22:00:00Z"}`,
			`POST /v1/dead-letters/redrive {"job":"J1","from":"1999-12-31T22:00:00Z","cursor":"c"}`,
		}, r.asked)
		r.says("POST /v1/dead-letters/redrive", ok(`{"redriven":[],"failed":[]}`))
		r.run("dlq", "redrive", "--all", "--tenant", "acme", "-y").is(cli.ExitOK, "no dead runs")
		require.Equal(t, `POST /v1/dead-letters/redrive {"tenant":"acme","all":true}`, r.asked[0])
	})
}

func TestARedriveTellsWhatItDidAndWhatItDidNot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		ids := make([]string, 120)
		for i := range ids {
			ids[i] = fmt.Sprintf("R%03d", i)
		}
		r.says("POST /v1/dead-letters/redrive",
			ok(`{"redriven":[{"run":"R000","redriven_as":"N1"}],"failed":[{"run":"R001","code":"not_found","message":"no such run"}]}`),
			ok(`{"redriven":[{"run":"R100","redriven_as":"N2"}],"failed":[]}`))
		res := r.run(append([]string{"dlq", "redrive", "-y", "--json"}, ids...)...).is(cli.ExitNotFound, "1 of 3 were not redriven; the first: R001: no such run")
		require.Equal(t, []string{
			`{"run":"R000","redriven":true,"redriven_as":"N1"}`,
			`{"run":"R001","redriven":false,"code":"not_found","error":"no such run"}`,
			`{"run":"R100","redriven":true,"redriven_as":"N2"}`,
		}, strings.Split(strings.TrimSpace(res.out), "\n"))
		require.Len(t, r.asked, 2, "a hundred at once")
		require.Equal(t, 100, strings.Count(r.asked[0], `"R`))
		require.Equal(t, 20, strings.Count(r.asked[1], `"R`))
		r.says("POST /v1/dead-letters/redrive", ok(`{"redriven":[{"run":"R1","redriven_as":"N1"}],"failed":[],"next_cursor":"c"}`), problem(500, `{"detail":"internal"}`))
		r.run("dlq", "redrive", "--all", "-y").is(cli.ExitFailed, "broken off: 1 redriven, 0 not; repeat it for the rest\nmyosin: internal")
		for _, args := range [][]string{{}, {"R1", "--all"}, {"R1", "--job", "J"}, {"--all", "--job", "J"}, {""}, {"--tenant", "t"}} {
			r.run(append([]string{"dlq", "redrive", "-y"}, args...)...).is(cli.ExitUsage, "myosin dlq redrive --help")
			require.Empty(t, r.asked)
		}
	})
}

func TestADryRedriveListsAndChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/dead-letters?job=J1&limit=100", ok(`{"items":[`+deadJSON("R1")+`],"next_cursor":"c"}`))
		r.says("GET /v1/dead-letters?cursor=c&job=J1&limit=100", ok(`{"items":[`+deadJSON("R2")+`]}`))
		res := r.run("dlq", "redrive", "--job", "J1", "--dry-run").is(cli.ExitOK, "")
		require.Equal(t, 3, strings.Count(res.out, "\n"), "header and both pages: %s", res.out)
		r.says("GET /v1/runs/R1", ok(deadJSON("R1"))).says("GET /v1/runs/R2", ok(runJSON("DEAD", `,"redriven_as":"N1"`)))
		r.run("dlq", "redrive", "R1", "--dry-run").is(cli.ExitOK, "")
		require.Contains(t, r.run("dlq", "redrive", "R1", "R2", "--dry-run").is(cli.ExitConflict, "not to be redriven: R2 is DEAD (redriven)").out, "R1")
	})
}
