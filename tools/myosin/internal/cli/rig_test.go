package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

var installations atomic.Int64

// emulator is started once: starting it is not safe beside its use.
var emulator = sync.OnceValue(func() string { return kumo.NewServer().URL })

// rig is an installation of its own on an emulator, and the command line beside it.
type rig struct {
	t        *testing.T
	endpoint string
	*platform.Platform
	buffers platform.Buffers
	host    cli.Host // In and the terminals, where a test sets them
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel() // most of a test is waiting for polls
	return newRigAlone(t)
}

// newRigAlone is newRig for a test that must run by itself.
func newRigAlone(t *testing.T) *rig {
	t.Helper()
	endpoint := emulator()
	p, err := platform.Open(t.Context(), platform.Options{
		Prefix: fmt.Sprintf("cli%d", installations.Add(1)), Endpoint: endpoint,
	})
	require.NoError(t, err)
	buffers, err := p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	return &rig{t: t, endpoint: endpoint, Platform: p, buffers: buffers}
}

// result is how a command ended.
type result struct {
	t        *testing.T
	code     int
	out, err string
}

func (r *rig) run(args ...string) result {
	r.t.Helper()
	return r.runIn(r.t.Context(), args...)
}

func (r *rig) runIn(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	h := r.host
	h.Out, h.Err = &out, &errs
	if h.In == nil {
		h.In = strings.NewReader("")
	}
	h.Env = func(name string) (string, bool) {
		if name == "MYOSIN_PREFIX" {
			return r.Names.Prefix, true
		}
		return "", false
	}
	code := cli.Run(ctx, h, append([]string{"--endpoint", r.endpoint}, args...))
	return result{t: r.t, code: code, out: out.String(), err: errs.String()}
}

// is asserts the exit code, and a part of what was said on standard error.
func (r result) is(code int, says string) result {
	r.t.Helper()
	require.Equal(r.t, code, r.code, "stdout: %s\nstderr: %s", r.out, r.err)
	require.Contains(r.t, r.err, says)
	return r
}

// json reads the output, which must be exactly one JSON value.
func (r result) json(v any) result {
	r.t.Helper()
	require.Equal(r.t, 1, strings.Count(r.out, "\n"), r.out)
	d := json.NewDecoder(strings.NewReader(r.out))
	require.NoError(r.t, d.Decode(v), r.out)
	return r
}

// keys reads the output, one JSON object, and returns its keys.
func (r result) keys() map[string]any {
	r.t.Helper()
	v := map[string]any{}
	r.json(&v)
	return v
}

type scheduled struct {
	ID     string    `json:"id"`
	Handle string    `json:"handle"`
	Due    time.Time `json:"due"`
}

func (r *rig) service(name string) registry.Service {
	r.t.Helper()
	svc, err := r.EnsureService(r.t.Context(), registry.Service{Name: name}, false)
	require.NoError(r.t, err)
	return svc
}

// drain stores what lies in the buffer of a lane, as services/inbound does, and
// returns it.
func (r *rig) drain(lane trigger.Lane) []trigger.Trigger {
	r.t.Helper()
	got, err := r.Queues.Receive(r.t.Context(), r.buffers.Inbound[lane], queue.ReceiveOptions{Wait: time.Second})
	require.NoError(r.t, err)
	var all []trigger.Trigger
	for _, m := range got {
		tr, err := trigger.DecodeInbound([]byte(m.Body), m.SentAt, func(time.Time) int { return 4 })
		require.NoError(r.t, err)
		r.insert(tr, trigger.StateScheduled)
		require.NoError(r.t, r.Queues.Delete(r.t.Context(), r.buffers.Inbound[lane], []string{m.Receipt})[0])
		all = append(all, tr)
	}
	return all
}

// insert puts a row into the table.
func (r *rig) insert(tr trigger.Trigger, state trigger.State) string {
	r.t.Helper()
	row := &store.Row{Trigger: tr, State: state, Created: time.Now().UTC().Truncate(time.Millisecond)}
	res := r.Store.Write(r.t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: row}})
	require.NoError(r.t, res[0].Err)
	return tr.Handle().String()
}

func (r *rig) trigger(service string, due time.Duration) trigger.Trigger {
	return trigger.Trigger{
		ID: trigger.NewID(), Service: service, Due: time.Now().Add(due).UTC().Truncate(time.Millisecond), N: 4,
		Payload: []byte("top secret"),
	}
}

// bury puts a dead trigger into the table.
func (r *rig) bury(service, reason string, due time.Duration) string {
	r.t.Helper()
	tr := r.trigger(service, due)
	tr.Name = "remind"
	state := trigger.AcquiredBy("test", time.Now())
	handle := r.insert(tr, state)
	res := r.Store.Bury(r.t.Context(), tr.Key(), state, reason, time.Now().Add(time.Hour))
	require.NoError(r.t, res.Err)
	return handle
}
