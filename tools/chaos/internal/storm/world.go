package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

const (
	// partitions a lane: the embedded engine reads the whole table for each query.
	partitions = 9
	caller     = "caller"
	startWait  = time.Minute
)

// world is one installation, the processes that run it, and what is known of
// both.
type world struct {
	o        Options
	dir      string
	start    time.Time
	say      *progress
	keeper   *procs.Keeper
	engine   *procs.Process // nil: not ours
	endpoint string
	target   *url.URL
	env      []string

	p        *platform.Platform // straight to the endpoint
	buffers  platform.Buffers
	services map[string]registry.Service
	jobs     *client.Client // through the callers' proxy
	way      *proxy.Proxy
	managed  *managed // nil: left out

	ledger  *audit.Ledger
	journal *journal.Journal
	copies  *proxy.Copies
	slots   []*slot
	calls   sync.WaitGroup // cancels, moves and repeats that the load brings
	busy    chan struct{}  // of them at once

	mu        sync.Mutex
	facts     audit.Facts
	starts    map[string]*started // every process start
	faults    map[string]int
	submitted int
	refused   int // surely not submitted
}

// build makes endpoint, installation and processes.
func (w *world) build(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := w.compile(ctx); err != nil {
		return err
	}
	if err := w.reach(ctx); err != nil {
		return err
	}
	prefix := fmt.Sprintf("c%08x", rand.Uint32()) //nolint:gosec // a name.
	w.ledger, w.journal, w.copies = audit.NewLedger(), journal.New(journal.Names{Prefix: prefix}), proxy.NewCopies()
	w.starts, w.services = make(map[string]*started), make(map[string]registry.Service)
	w.facts.Deleted, w.busy = make(map[string][]time.Time), make(chan struct{}, 8)
	var err error
	if w.p, err = platform.Open(ctx, platform.Options{Prefix: prefix, Endpoint: w.endpoint}); err != nil {
		return err
	}
	if w.buffers, err = w.p.Ensure(ctx, partitions); err != nil {
		return err
	}
	for _, name := range Services() {
		if w.services[name], err = w.p.EnsureService(ctx, registry.Service{Name: name}, true); err != nil {
			return err
		}
	}
	w.addSlots()
	if err := w.openManaged(ctx); err != nil {
		return err
	}
	if err := w.openClient(ctx, prefix); err != nil {
		return err
	}
	var errs []error
	for _, s := range w.slots {
		if s.role != caller {
			errs = append(errs, w.launch(ctx, s, 0))
		}
	}
	for _, s := range w.slots {
		errs = append(errs, w.ready(ctx, s.now))
	}
	return errors.Join(errs...)
}

// compile makes the programs as a release would.
func (w *world) compile(ctx context.Context) error {
	const module = "github.com/myosin-jobs/myosin/"
	args := []string{"build", "-o", w.dir + string(filepath.Separator), module + "services/inbound", module + "services/scheduler"}
	if w.o.Runs > 0 {
		args = append(args, module+"services/runner", module+"services/api")
	}
	if w.o.Engine == EngineNull {
		args = append(args, module+"tools/bench") // its endpoint is internal to it: so as a program
	}
	w.say.line("building the programs")
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // a directory of our own.
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs (run it inside the module): %w\n%s", err, out)
	}
	return nil
}

var engineURL = regexp.MustCompile(`(?:engine at|bench-endpoint) (\S+)`)

// reach finds or starts the endpoint.
func (w *world) reach(ctx context.Context) (err error) {
	w.endpoint = w.o.Endpoint
	if w.endpoint == "" {
		w.endpoint, err = w.startEngine(ctx)
		if err != nil {
			return err
		}
	}
	w.target, err = url.Parse(w.endpoint)
	return err
}

// startEngine starts the engine of the run. It ends with this process.
func (w *world) startEngine(ctx context.Context) (endpoint string, err error) {
	spec := procs.Spec{Name: engine, Dir: w.dir, Env: embedded.Environ(os.Environ(), "")}
	if w.o.Engine == EngineNull {
		spec.Program, spec.Args = filepath.Join(w.dir, "bench"), []string{"endpoint", "--addr=127.0.0.1:0", "--stdin"}
	} else {
		spec.Args = []string{EngineCommand}
		if spec.Program, err = os.Executable(); err != nil {
			return "", err
		}
	}
	if w.hasDisk() {
		spec.Env = append(embedded.Environ(os.Environ(), w.dataDir()), fmt.Sprintf("KUMO_PERSIST_FLUSH_INTERVAL_MS=%d", flushMs))
	}
	if w.engine, err = w.keeper.Start(spec); err != nil {
		return "", err
	}
	return w.engine.Sees(ctx, w.engine.Out, engineURL)
}

func (w *world) addSlots() {
	add := func(role string, n int) {
		for i := range n {
			s := &slot{role: role, index: i, count: n, place: role}
			if role != caller {
				s.place += "-" + strconv.Itoa(i)
			}
			s.faults = proxy.NewPlace(w.o.Seed, uint64(len(w.slots)))
			w.slots = append(w.slots, s)
		}
	}
	add(caller, 1)
	add("inbound", w.o.Inbounds)
	add("scheduler", w.o.Schedulers)
	add("worker", w.o.Workers)
	if w.o.Runs > 0 {
		add(runner, w.o.Runners)
		add(api, w.o.APIs)
	}
}

// places are those whose processes may be killed: of the managed layer, or the
// others.
func (w *world) places(managed bool) (out []string) {
	for _, s := range w.slots {
		if s.role != caller && managed == (s.role == runner || s.role == api) {
			out = append(out, s.place)
		}
	}
	return out
}

func (w *world) slot(place string) *slot {
	for _, s := range w.slots {
		if s.place == place {
			return s
		}
	}
	return nil
}

func (w *world) openClient(ctx context.Context, prefix string) error {
	var err error
	if w.way, err = w.listen(ctx, w.slot(caller), caller); err != nil {
		return err
	}
	p, err := platform.Open(ctx, platform.Options{Prefix: prefix, Endpoint: w.way.URL()})
	if err != nil {
		return err
	}
	table, err := client.NewTable(client.TableOptions{Store: p.Store})
	if err != nil {
		return err
	}
	w.env = environ("", prefix)
	w.jobs, err = client.New(client.Options{
		Sender: p.Queues, InboundURL: w.buffers.Inbound[trigger.Standard], UrgentInboundURL: w.buffers.Inbound[trigger.Urgent],
		Services: p.Services, Partitions: p.Store, Triggers: table,
	})
	return err
}

func (w *world) listen(ctx context.Context, s *slot, name string) (*proxy.Proxy, error) {
	o := proxy.Options{Name: name, Target: w.target, Place: s.faults, Copies: w.copies, Journal: w.journal}
	if s.role == runner || s.role == api {
		o.Seen = w.managed.ledger.Seen
	}
	return proxy.Listen(ctx, o)
}

var listens = regexp.MustCompile(`"addr(?:ess)?":"([^"]+)"`)

// ready waits until a process says that it is. Workers say nothing.
func (w *world) ready(ctx context.Context, s *started) error {
	if s == nil || s.slot.role == "worker" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	addr, err := s.proc.Sees(ctx, s.proc.Log, listens)
	if err != nil {
		return err
	}
	defer w.found(s, addr)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if !s.proc.Running() {
			return fmt.Errorf("%s is not ready: %s", s.name, s.proc.State())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", s.name, ctx.Err(), s.proc.Tail(10))
		}
	}
}

// close ends whatever is left.
func (w *world) close() {
	for _, s := range w.starts {
		s.proc.Kill()
		s.way.Close()
	}
	if w.managed != nil {
		w.managed.close()
	}
	if w.way != nil {
		w.way.Close()
	}
	if w.engine != nil {
		w.engine.Kill()
	}
}

// remote reports whether the endpoint's clock is not this machine's.
func (w *world) remote() bool {
	host := w.target.Hostname()
	return host != "localhost" && !strings.HasPrefix(host, "127.") && host != "::1"
}
