package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

func TestAJobIsScheduledLookedUpMovedAndCancelled(t *testing.T) {
	r := newRig(t)
	r.service("hello")
	var job scheduled
	res := r.run("schedule", "--service", "hello", "--in", "1h", "--payload", `{"n":1}`, "--name", "remind",
		"--header", "x-a=1", "--header", "x-b=c=d", "--tenant", "t1", "--group", "g1", "--json").is(cli.ExitOK, "").json(&job)
	require.Len(t, res.keys(), 3, "exactly id, handle and due")
	require.WithinDuration(t, time.Now().Add(time.Hour), job.Due, 10*time.Second)

	r.run("get", job.Handle).is(cli.ExitNotFound, "not stored yet")
	r.run("reschedule", job.Handle, "--in", "2h").is(cli.ExitNotFound, "not stored yet")
	stored := r.drain(trigger.Standard)
	require.Len(t, stored, 1)
	require.JSONEq(t, `{"n":1}`, string(stored[0].Payload))
	require.Equal(t, map[string]string{"x-a": "1", "x-b": "c=d"}, stored[0].Headers)

	v := r.run("get", job.Handle, "--json").is(cli.ExitOK, "").keys()
	require.Equal(t, job.ID, v["id"])
	require.Equal(t, "scheduled", v["state"])
	require.Equal(t, "remind", v["name"])
	require.InDelta(t, 7, v["payload_bytes"], 0)
	require.NotContains(t, v, "payload", "shown only when asked for")
	require.Equal(t, `{"n":1}`, r.run("get", job.Handle, "--json", "--show-payload").keys()["payload"])
	human := r.run("get", job.Handle)
	require.Contains(t, human.out, "7 bytes")
	require.NotContains(t, human.out, `{"n":1}`)

	var moved scheduled
	r.run("reschedule", job.Handle, "--at", "+3d12h", "--json").is(cli.ExitOK, "").json(&moved)
	require.Equal(t, job.ID, moved.ID)
	require.WithinDuration(t, time.Now().Add(84*time.Hour), moved.Due, 10*time.Second)
	require.NotEqual(t, job.Handle, moved.Handle)
	require.Equal(t, moved.Handle, r.run("get", job.Handle, "--json").keys()["handle"], "the old handle finds it")

	c := r.run("cancel", job.Handle, "--json").is(cli.ExitOK, "").keys()
	require.Equal(t, "cancelled", c["outcome"])
	require.Equal(t, job.ID, c["id"])
	require.Equal(t, "cancelled", r.run("get", moved.Handle, "--json").keys()["state"])
	r.run("reschedule", moved.Handle, "--in", "1h").is(cli.ExitConflict, "trigger is cancelled")
}

func TestACancelThatIsNotCertainSaysSo(t *testing.T) {
	r := newRig(t)
	late := r.insert(r.trigger("hello", time.Hour), trigger.StateMaybeSent)
	res := r.run("cancel", late, "--json").is(cli.ExitConflict, "too late to be sure")
	require.Equal(t, "too_late", res.keys()["outcome"])
	sending := r.insert(r.trigger("hello", time.Hour), trigger.AcquiredBy("x", time.Now()))
	r.run("cancel", sending).is(cli.ExitConflict, "being delivered")
	r.run("reschedule", sending, "--in", "5m").is(cli.ExitConflict, "being delivered")
	r.run("cancel", r.bury("hello", "refused", 0)).is(cli.ExitConflict, "dead")
}

func TestTheDueTimeIsMandatoryAndUnambiguous(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{nil, "give --in or --at"},
		{[]string{"--in", "5s", "--at", "now"}, "[in at]"},
		{[]string{"--in", "5"}, `"--in" flag: "5": 5 has no unit`},
		{[]string{"--in", "-5s"}, `"--in" flag: want 0 or more`},
		{[]string{"--at", "2027-01-01T09:00:00"}, "with its zone"},
		{[]string{"--in", "5s", "--lane", "fast"}, "want standard or urgent"},
		{[]string{"--in", "5s", "--header", "x"}, `--header "x": want name=value`},
		{[]string{"--in", "5s", "--key", "k"}, "--submitted"},
		{[]string{"--in", "5s", "--nope"}, "unknown flag: --nope"},
		{[]string{"--in", "5s", "extra"}, "extra"},
	} {
		res := r.run(append([]string{"schedule", "--service", "hello"}, tc.args...)...)
		res.is(cli.ExitUsage, tc.says)
		require.Empty(t, res.out)
	}
	r.run("schedule", "--in", "5s").is(cli.ExitUsage, `"service"`)
}

func TestARefusedJobNamesTheFieldAndNothingIsSent(t *testing.T) {
	r := newRig(t)
	r.service("hello")
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--in", "11y"}, cli.ExitUsage, "want a duration"},
		{[]string{"--in", "600w"}, cli.ExitRefused, "--in: "},
		{[]string{"--at", "-2d"}, cli.ExitRefused, "due time (--at, --in): "},
		{[]string{"--in", "5s", "--header", "Myosin-X=1"}, cli.ExitRefused, "--header Myosin-X: name is reserved"},
		{[]string{"--in", "5s", "--name", "two words"}, cli.ExitRefused, "--name: "},
		{[]string{"--in", "5s", "--payload", "@/nowhere/at/all"}, cli.ExitRefused, "--payload: "},
		{[]string{"--in", "5s", "--service", "nobody"}, cli.ExitNotFound, `service "nobody" is not in the registry: myosin services add nobody`},
	} {
		res := r.run(append([]string{"schedule", "--service", "hello"}, tc.args...)...)
		res.is(tc.code, tc.says)
		require.Empty(t, res.out)
	}
	r.host.In = strings.NewReader(strings.Repeat("x", trigger.MaxPayload+1))
	r.run("schedule", "--service", "hello", "--in", "1m", "--payload", "-").is(cli.ExitRefused, "more than 262144 bytes")
	depth, err := r.Queues.Depth(t.Context(), r.buffers.Inbound[trigger.Standard])
	require.NoError(t, err)
	require.Zero(t, depth.Visible)
}

func TestPayloadsComeFromTextFileAndStandardInput(t *testing.T) {
	r := newRig(t)
	r.service("hello")
	path := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(path, []byte("from\nfile\n"), 0o600))
	for arg, want := range map[string]string{"text": "text", "@" + path: "from\nfile\n", "-": "from stdin", "@@at": "@at", "": ""} {
		r.host.In = strings.NewReader("from stdin")
		r.run("schedule", "--service", "hello", "--in", "1h", "--lane", "urgent", "--payload", arg).is(cli.ExitOK, "")
		stored := r.drain(trigger.Urgent)
		require.Len(t, stored, 1)
		require.Equal(t, want, string(stored[0].Payload))
	}
}

func TestTheSameKeyAndTimeAreOneJob(t *testing.T) {
	r := newRig(t)
	r.service("hello")
	var a, b scheduled
	args := []string{"schedule", "--service", "hello", "--at", "2027-01-01T09:00:00Z", "--key", "order-1", "--json"}
	r.run(args...).json(&a)
	r.run(args...).json(&b)
	require.Equal(t, a, b)
}

func TestErrorsSayWhereAWSIsAndWhatIsMissing(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	r.endpoint = gone
	res := r.run("partitions", "show").is(cli.ExitUnavailable, "cannot reach "+gone+": connection refused")
	require.Equal(t, 1, strings.Count(res.err, "\n"), "one clear line")
	r.run("schedule", "--service", "hello", "--in", "5s").is(cli.ExitUnavailable, "cannot reach "+gone)
	r.endpoint = "nonsense"
	r.run("partitions", "show").is(cli.ExitUsage, "http://host:port")
}

func TestAWrongPrefixIsNotFound(t *testing.T) {
	r := newRig(t)
	r.run("services", "list", "--prefix", "other").is(cli.ExitNotFound, "--prefix")
	r.run("schedule", "--service", "hello", "--in", "5s", "--prefix", "other").is(cli.ExitNotFound, "other-inbound")
	r.run("services", "list", "--prefix", "no_good").is(cli.ExitUsage, "prefix")
}

func TestInterruptsAndLostPatienceHaveTheirOwnCodes(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.runIn(ctx, "services", "list").is(cli.ExitInterrupted, "interrupted")
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, answers nothing
	require.NoError(t, err)
	defer l.Close()
	r.endpoint = "http://" + l.Addr().String()
	r.run("services", "list", "--timeout", "200ms").is(cli.ExitUnavailable, "no progress for 200ms (--timeout)")
}

func TestUnknownCommandsAreUsageErrors(t *testing.T) {
	r := newRig(t)
	r.run("nope").is(cli.ExitUsage, "nope")
	r.run("services").is(cli.ExitUsage, "list, show, add")
	r.run("services", "nope").is(cli.ExitUsage, "want one of")
	r.run("get").is(cli.ExitUsage, "HANDLE is missing")
	r.run("get", "garbage").is(cli.ExitRefused, "not a handle")
}

func TestHelpAndVersionNeedNoEndpoint(t *testing.T) {
	r := newRig(t)
	r.endpoint = "http://127.0.0.1:1"
	require.Contains(t, r.run("--help").is(cli.ExitOK, "").out, "Exit codes:")
	require.Contains(t, r.run("work", "--help").is(cli.ExitOK, "").out, "MYOSIN_ATTEMPT")
	require.Contains(t, r.run("version", "--json").is(cli.ExitOK, "").keys(), "version")
	require.Contains(t, r.run("completion", "bash").is(cli.ExitOK, "").out, "__start_myosin")
}

func TestVerboseLogsCallsAndNoPayload(t *testing.T) {
	r := newRig(t)
	r.service("hello")
	res := r.run("schedule", "-v", "--service", "hello", "--in", "1h", "--payload", "top secret", "--json").is(cli.ExitOK, "SendMessageBatch")
	require.NotContains(t, res.err, "secret")
	require.True(t, json.Valid([]byte(res.out)))
}
