package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// foreign is the aws command against an endpoint.
type foreign struct {
	t       *testing.T
	program string
	url     string
}

// sqs runs one command of SQS and reads its JSON into v, if there is one.
func (f foreign) sqs(v any, args ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"--endpoint-url", f.url, "--output", "json", "sqs"}, args...)
	cmd := exec.CommandContext(ctx, f.program, args...)
	cmd.Env = embedded.Environ(os.Environ(), "")
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(f.t, err, "aws %s: %s", strings.Join(args, " "), stderr.String())
	if len(bytes.TrimSpace(out)) > 0 && v != nil {
		require.NoError(f.t, json.Unmarshal(out, v), string(out))
	}
}

func (f foreign) queue(name string) string {
	f.t.Helper()
	var answer struct{ QueueURL string }
	f.sqs(&answer, "get-queue-url", "--queue-name", name)
	require.True(f.t, strings.HasSuffix(answer.QueueURL, "/"+name), answer.QueueURL)
	return answer.QueueURL
}

// message is a message as the aws command prints it.
type message struct {
	Body              string
	ReceiptHandle     string
	MessageAttributes map[string]struct{ StringValue, DataType string }
}

// receive polls until a message comes.
func (f foreign) receive(queue string, within time.Duration) message {
	f.t.Helper()
	var answer struct{ Messages []message }
	for end := time.Now().Add(within); time.Now().Before(end); {
		// Short polls: the embedded engine does not wake a long one for every reason.
		f.sqs(&answer, "receive-message", "--queue-url", queue, "--message-attribute-names", "All", "--wait-time-seconds", "2")
		if len(answer.Messages) > 0 {
			require.Len(f.t, answer.Messages, 1)
			return answer.Messages[0]
		}
	}
	require.Failf(f.t, "no message came", "on %s within %s", queue, within)
	return message{}
}

func (f foreign) remove(queue string, m message) {
	f.t.Helper()
	f.sqs(nil, "delete-message", "--queue-url", queue, "--receipt-handle", m.ReceiptHandle)
}

// standalone starts the built binary on free ports, with a home of its own.
func standalone(t *testing.T, args ...string) (p *process, awsURL string) {
	t.Helper()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	p = start(t, dir, "standalone", "standalone", env, append([]string{"--api-addr=127.0.0.1:0", "--aws-addr=127.0.0.1:0"}, args...)...)
	return p, p.sees(p.out, `AWS  (http://\S+)`, 30*time.Second)
}

func TestForeignClientSubmitsAndReceivesByHand(t *testing.T) {
	needsE2E(t)
	t.Parallel()
	program := os.Getenv(envAWSCLI)
	if program == "" {
		t.Skipf("%s names no aws command: make e2e brings one", envAWSCLI)
	}
	p, url := standalone(t, "--no-demo")
	f := foreign{t, program, url}

	// The owning service is added by the command line.
	add := exec.CommandContext(t.Context(), filepath.Join(binaries, "myosin"), "services", "add", "payments", "--json")
	add.Env = environ(url, "myosin")
	out, err := add.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "myosin-svc-payments")

	inbound, svc, dlq := f.queue("myosin-inbound"), f.queue("myosin-svc-payments"), f.queue("myosin-inbound-dlq")

	id, payload := "0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e", `{"order":42,"note":"Grüße"}`
	due := time.Now().Add(5 * time.Second).UTC().Truncate(time.Millisecond)
	f.sqs(nil, "send-message", "--queue-url", inbound, "--message-group-id", "payments", "--message-body", fmt.Sprintf(
		`{"v":1,"id":%q,"service":"payments","due":%q,"name":"remind","tenant":"t1","headers":{"k":"v"},"payload":%q}`,
		id, due.Format("2006-01-02T15:04:05.000Z"), base64.StdEncoding.EncodeToString([]byte(payload))))

	got := f.receive(svc, 30*time.Second)
	require.False(t, time.Now().Before(due), "early")
	require.Equal(t, payload, got.Body)
	text := make(map[string]string)
	for name, a := range got.MessageAttributes {
		require.Equal(t, "String", a.DataType)
		text[name] = a.StringValue
	}
	require.Equal(t, map[string]string{
		"Myosin-Id": id, "Myosin-Due": strconv.FormatInt(due.UnixMilli(), 10), "Myosin-Name": "remind", "Myosin-Tenant": "t1", "k": "v",
	}, text)
	f.remove(svc, got)

	garbage := "not JSON; drop table\ttriggers"
	f.sqs(nil, "send-message", "--queue-url", inbound, "--message-body", garbage)
	dead := f.receive(dlq, 30*time.Second)
	var letter struct {
		Reason, Body, Lane string
		Errors             []struct{ Field, Msg string }
	}
	require.NoError(t, json.Unmarshal([]byte(dead.Body), &letter), dead.Body)
	require.Equal(t, "invalid", letter.Reason)
	require.Equal(t, garbage, letter.Body)
	require.Equal(t, "standard", letter.Lane)
	require.NotEmpty(t, letter.Errors)
	require.Equal(t, "body", letter.Errors[0].Field)
	require.NotEmpty(t, letter.Errors[0].Msg)
	f.remove(dlq, dead)

	for name, queue := range map[string]string{"inbound": inbound, "service": svc, "dead letters": dlq} {
		var depth struct{ Attributes map[string]string }
		f.sqs(&depth, "get-queue-attributes", "--queue-url", queue, "--attribute-names", "All")
		require.Equal(t, "0", depth.Attributes["ApproximateNumberOfMessages"], name)
		require.Equal(t, "0", depth.Attributes["ApproximateNumberOfMessagesNotVisible"], name)
	}
	p.stop(grace)
}

// What make run starts, on a machine that has never seen it.
func TestForeignClientSeesTheDemoOfAFreshHome(t *testing.T) {
	needsE2E(t)
	t.Parallel()
	p, _ := standalone(t)
	late := p.sees(p.out, `Done: 5 delivered, (\d+ to \d+) ms late; 1 cancelled, and it did not arrive\.`, time.Minute)
	t.Attr("lateness-ms", late)
	p.signal(syscall.SIGINT)
	eventually(t, grace, 50*time.Millisecond, "the process ends", func() error {
		if p.running() {
			return fmt.Errorf("still %s", p.state())
		}
		return nil
	})
	require.Equal(t, 0, p.cmd.ProcessState.ExitCode(), p.state())
	out, err := os.ReadFile(p.out)
	require.NoError(t, err)
	require.Contains(t, string(out), "Stopped cleanly")
}
