package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

// deliver puts jobs onto a service's queue, as the scheduler does.
func (r *rig) deliver(svc *registry.Service, payloads ...string) {
	r.t.Helper()
	for _, p := range payloads {
		tr := r.trigger(svc.Name, -time.Second)
		tr.Payload, tr.Name, tr.Headers = []byte(p), "remind", map[string]string{"x-a.b": "1"}
		d := trigger.Deliver(&tr, false)
		require.NoError(r.t, r.Queues.SendBatch(r.t.Context(), svc.QueueURL, []queue.Message{{Body: d.Body, Attributes: d.Attributes}})[0])
	}
}

func (r *rig) depth(url string) int {
	r.t.Helper()
	d, err := r.Queues.Depth(r.t.Context(), url)
	require.NoError(r.t, err)
	return d.Visible + d.InFlight + d.Delayed
}

func TestMessagesArePrintedAndDone(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.deliver(&svc, `{"n":1}`, "\x00\xff", "\x1b[31mred")
	res := r.run("work", "--service", "hello", "--max", "2", "--wait", "1s", "--json").is(cli.ExitOK, "2 done")
	lines := strings.Split(strings.TrimSpace(res.out), "\n")
	require.Len(t, lines, 2)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &v))
	require.Equal(t, `{"n":1}`, v["payload"])
	require.Equal(t, "remind", v["name"])
	require.Equal(t, map[string]any{"x-a.b": "1"}, v["headers"])
	require.InDelta(t, 1, v["attempt"], 0)
	require.InDelta(t, 1000, v["lateness_ms"], 10_000)
	v = nil
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &v))
	require.Equal(t, "AP8=", v["payload_base64"])
	require.NotContains(t, v, "payload")
	require.Equal(t, 1, r.depth(svc.QueueURL), "no more than --max were taken")

	res = r.run("work", "--service", "hello", "--max", "1", "--wait", "1s").is(cli.ExitOK, "1 done")
	require.Contains(t, res.out, `"\x1b[31mred"`, "a terminal cannot be told what to do")
	require.Zero(t, r.depth(svc.QueueURL))
}

func TestWorkEndsAtItsTimeoutAndOnInterrupt(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.run("work", "--service", "hello", "--timeout", "200ms", "--wait", "1s").is(cli.ExitOK, "0 done")
	r.deliver(&svc, "one")
	r.run("work", "--service", "hello", "--max", "2", "--timeout", "300ms", "--wait", "1s").is(cli.ExitUnavailable, "only 1 of 2")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r.runIn(ctx, "work", "--service", "hello", "--wait", "1s").is(cli.ExitOK, "0 done")
	r.run("work", "--service", "nobody").is(cli.ExitNotFound, "myosin services add nobody")
	r.run("work", "--service", "hello", "arg").is(cli.ExitUsage, "--exec")
	r.run("work", "--service", "hello", "--max", "-1").is(cli.ExitUsage, "--max")
	r.run("work", "--service", "hello", "--wait", "1500ms").is(cli.ExitUsage, "whole seconds")
	require.NoError(t, r.Queues.DeleteQueue(t.Context(), svc.QueueURL))
	r.run("work", "--service", "hello").is(cli.ExitNotFound, "does not exist")
}

func TestACommandRunsForEachMessage(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.deliver(&svc, "one", "two")
	res := r.run("work", "--service", "hello", "--max", "2", "--wait", "1s", "--exec", "sh", "--",
		"-c", `echo "$(cat) $1 $MYOSIN_SERVICE $MYOSIN_NAME $MYOSIN_LANE $MYOSIN_ATTEMPT $MYOSIN_HEADER_X_A_B ${#MYOSIN_ID} $MYOSIN_DUE_MS"`, "sh", "arg").
		is(cli.ExitOK, "2 done, 0 to be tried again")
	require.Regexp(t, `(?m)^one arg hello remind standard 1 1 36 \d{13}$`, res.out)
	require.Regexp(t, `(?m)^two arg `, res.out)
	require.Zero(t, r.depth(svc.QueueURL))
}

func TestACommandThatFailsGetsItsMessageAgain(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.deliver(&svc, "top secret")
	mark := filepath.Join(t.TempDir(), "mark")
	res := r.run("work", "--service", "hello", "--max", "2", "--wait", "1s", "--timeout", "30s", "--exec", "sh", "--",
		"-c", "if [ -e $1 ]; then echo attempt $MYOSIN_ATTEMPT; else : >$1; exit 3; fi", "sh", mark).is(cli.ExitOK, "1 done, 1 to be tried again")
	require.Contains(t, res.err, "exit status 3")
	require.NotContains(t, res.err, "secret")
	require.Equal(t, "attempt 2\n", res.out)
	require.Zero(t, r.depth(svc.QueueURL))
}

func TestACommandThatCannotRunStopsTheWork(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.deliver(&svc, "one")
	r.run("work", "--service", "hello", "--exec", "no-such-program-here").is(cli.ExitUsage, "no-such-program-here")
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755))
	r.run("work", "--service", "hello", "--wait", "1s", "--exec", broken).is(cli.ExitFailed, "--exec")
	require.Equal(t, 1, r.depth(svc.QueueURL), "the message is kept")
}

func TestAnInterruptLetsTheRunningCommandFinish(t *testing.T) {
	r := newRig(t)
	svc := r.service("hello")
	r.deliver(&svc, "one")
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				interrupt()
				return
			}
			select {
			case <-t.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	res := r.runIn(ctx, "work", "--service", "hello", "--wait", "1s", "--exec", "sh", "--", "-c", ": >$1; sleep 1; echo finished", "sh", started).
		is(cli.ExitOK, "1 done")
	require.Equal(t, "finished\n", res.out)
	require.Zero(t, r.depth(svc.QueueURL))

	r.deliver(&svc, "two")
	begun := time.Now()
	r.run("work", "--service", "hello", "--wait", "1s", "--timeout", "500ms", "--grace", "1s", "--exec", "sleep", "--", "60").
		is(cli.ExitOK, "0 done, 1 to be tried again")
	require.Less(t, time.Since(begun), 10*time.Second)
	require.Equal(t, 1, r.depth(svc.QueueURL))
}

func TestNothingIsLeftRunning(t *testing.T) {
	r := newRigAlone(t)
	svc := r.service("hello")
	r.run("services", "list")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), // idle connections live on
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"))
	r.deliver(&svc, "one")
	r.run("work", "--service", "hello", "--max", "1", "--wait", "1s", "--exec", "true").is(cli.ExitOK, "1 done")
}
