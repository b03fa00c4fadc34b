package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Command is the argument by which this program becomes the target; how long it
// takes to answer, the tolerance of spread jobs and their period follow.
const Command = "target-process"

// The paths of the target.
const (
	pathStandard = "/standard"
	pathUrgent   = "/urgent"
)

// What the target is asked.
const (
	askSeen    = "seen"
	askFigures = "figures"
	askReset   = "reset"
)

// seen is how far a run is.
type seen struct {
	Runs   int           `json:"runs"` // told apart by their ids
	Urgent int           `json:"urgent"`
	CPU    time.Duration `json:"cpu_ns"`
}

// Lateness sums up one distribution, in milliseconds.
type Lateness struct {
	Runs               int64
	P50, P90, P99, Max float64
}

// Figures are what the target noted since it began, or was last reset.
type Figures struct {
	Runs     int // told apart by their ids
	Repeated int // further calls of a run
	Early    int // before the nominal time
	Strange  int // calls that are no run's
	// Standard and Urgent are from the nominal time, FromDue from the time that a
	// spread job's run is due.
	Standard, Urgent, FromDue Lateness
	// Late is how many standard runs came after their tolerance, where one is
	// declared, and Over by how much the latest, in milliseconds.
	Late int
	Over float64
	// PerSecond is how many calls a second came between a tenth and nine tenths
	// of all.
	PerSecond float64
	// Mean and Most are of the standard runs of each whole second, Most10 of each
	// ten seconds in a row, a second's share of them.
	Mean, Most, Most10 float64
	InFlight           int // calls at a time, at most
	Connections        int // that were opened
}

// maxLate is the largest lateness told apart.
const maxLate = 24 * time.Hour

// notes are what the target knows of its calls.
type notes struct {
	delay, tolerance, period time.Duration

	mu                         sync.Mutex
	ids                        map[string]struct{}
	f                          Figures
	urgent                     int
	standard, urgents, fromDue *hdrhistogram.Histogram // µs
	arrivals                   []int64                 // of every call, epoch milliseconds
	standards                  []int64                 // of standard ones
	inFlight                   int
}

func newNotes(delay, tolerance, period time.Duration) *notes {
	n := &notes{delay: delay, tolerance: tolerance, period: period}
	n.reset()
	return n
}

func (n *notes) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids, n.f, n.urgent = make(map[string]struct{}), Figures{}, 0
	n.arrivals, n.standards = nil, nil
	for _, h := range []**hdrhistogram.Histogram{&n.standard, &n.urgents, &n.fromDue} {
		*h = hdrhistogram.New(1, maxLate.Microseconds(), 3)
	}
}

// ServeHTTP implements http.Handler.
func (n *notes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	if err := n.note(r, now); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	} else if n.delay > 0 {
		_, _ = io.Copy(io.Discard, r.Body) // so that the client's hanging up is noticed
		_ = fleet.Pause(r.Context(), n.delay-time.Since(now))
	}
	n.mu.Lock()
	n.inFlight--
	n.mu.Unlock()
}

// connected is told what becomes of a connection.
func (n *notes) connected(_ net.Conn, state http.ConnState) {
	if state != http.StateNew {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.f.Connections++
}

// note notes a call.
func (n *notes) note(r *http.Request, now time.Time) error {
	id := r.Header.Get(target.HeaderRunID)
	nominal, err := time.Parse(time.RFC3339Nano, r.Header.Get(target.HeaderScheduledAt))
	_, parts, bad := job.ParseRunID(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inFlight++
	n.f.InFlight = max(n.f.InFlight, n.inFlight)
	if err := errors.Join(err, bad); err != nil {
		n.f.Strange++
		return err
	}
	if _, again := n.ids[id]; again {
		n.f.Repeated++
		return nil
	}
	n.ids[id] = struct{}{}
	late := now.Sub(nominal)
	if late < 0 {
		n.f.Early++
	}
	n.arrivals = append(n.arrivals, now.UnixMilli())
	if r.URL.Path == pathUrgent {
		n.urgent++
		record(n.urgents, late)
		return nil
	}
	n.standards = append(n.standards, now.UnixMilli())
	record(n.standard, late)
	if n.tolerance > 0 {
		due := late - job.Spread(parts.Job, n.tolerance, n.period)
		if record(n.fromDue, due); due < 0 && late >= 0 {
			n.f.Early++
		}
		if over := late - n.tolerance; over > 0 {
			n.f.Late++
			n.f.Over = max(n.f.Over, over.Seconds()*1000)
		}
	}
	return nil
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d, 0), maxLate).Microseconds()) // always in range
}

func lateness(h *hdrhistogram.Histogram) Lateness {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Lateness{h.TotalCount(), at(50), at(90), at(99), float64(h.Max()) / 1000}
}

func (n *notes) figures() Figures {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.f
	f.Runs = len(n.ids)
	f.Standard, f.Urgent, f.FromDue = lateness(n.standard), lateness(n.urgents), lateness(n.fromDue)
	slices.Sort(n.arrivals)
	slices.Sort(n.standards)
	f.PerSecond = steady(n.arrivals)
	f.Mean, f.Most, f.Most10 = flatness(n.standards)
	return f
}

// steady is the rate between a tenth and nine tenths of sorted arrivals, a second.
func steady(arrivals []int64) float64 {
	from, to := len(arrivals)/10, len(arrivals)*9/10
	if to-from < 10 || arrivals[to] == arrivals[from] {
		return 0
	}
	return float64(to-from) * 1000 / float64(arrivals[to]-arrivals[from])
}

// flatness tells of the whole seconds between the first and the last of sorted
// arrivals: how many came in one on average, in the fullest, and in one of the
// ten in a row that were fullest. Zeros where there are fewer than ten.
func flatness(arrivals []int64) (mean, most, most10 float64) {
	if len(arrivals) == 0 {
		return 0, 0, 0
	}
	first := arrivals[0]
	seconds := make([]float64, (arrivals[len(arrivals)-1]-first)/1000)
	if len(seconds) < 10 {
		return 0, 0, 0
	}
	for _, at := range arrivals {
		if i := int((at - first) / 1000); i < len(seconds) {
			seconds[i]++
		}
	}
	sum, run := 0.0, 0.0
	for i, n := range seconds {
		sum += n
		most = max(most, n)
		if run += n; i >= 10 {
			run -= seconds[i-10]
		}
		if i >= 9 {
			most10 = max(most10, run/10)
		}
	}
	return sum / float64(len(seconds)), most, most10
}

// Serve is the target's process: it serves until in ends. Ready with its base URL.
func Serve(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("target: want delay, tolerance and period")
	}
	var spans [3]time.Duration
	for i, text := range args {
		var err error
		if spans[i], err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	n := newNotes(spans[0], spans[1], spans[2])
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	srv := &http.Server{Handler: n, ReadHeaderTimeout: 10 * time.Second, ConnState: n.connected}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	link := child.NewLink(in, out)
	err = link.Ready("http://" + l.Addr().String())
	if err == nil {
		err = link.Serve(map[string]func() (any, error){
			askSeen: func() (any, error) {
				used, _ := host.CPU() // 0 where the system does not tell
				n.mu.Lock()
				defer n.mu.Unlock()
				return seen{Runs: len(n.ids), Urgent: n.urgent, CPU: used}, nil
			},
			askFigures: func() (any, error) { return n.figures(), nil },
			askReset:   func() (any, error) { n.reset(); return nil, nil },
		})
	}
	err = errors.Join(err, srv.Close())
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
