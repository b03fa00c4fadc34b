package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Store is what the drain needs of the trigger table.
type Store interface {
	dispatch.Table
	Epochs(ctx context.Context) (trigger.Epochs, error)
}

// Queue is what the drain needs of the queue engine: it receives from the
// buffers, and sends to the dead-letter queue and, for jobs due already, to the
// services.
type Queue interface {
	queue.Receiver
	queue.Sender
}

// Forecast is told what is due. It must neither block nor fail.
type Forecast interface {
	Add(service string, due time.Time, n int)
}

// URLs are the addresses of the inbound queues.
type URLs struct {
	Inbound [len(trigger.Lanes)]string // by lane
	DLQ     string
}

// Options configure an [Inbound]. Zero values take the default.
type Options struct {
	Store    Store
	Queue    Queue
	Services dispatch.Services
	// Members divide the fleet-wide rates among themselves.
	Members membership.Provider
	Clock   *clock.Clock
	// Owner names this start of this process in the rows it acquires; see
	// [trigger.ValidOwner]. It must never be used by two starts, nor by the
	// scheduler of the same process.
	Owner string
	URLs  URLs
	// Forecast is told of each row that the drain stored, due already or not, but
	// of no duplicate. It is told once at most: a row whose reply was lost may be
	// taken for a duplicate. nil: nobody is told.
	Forecast Forecast

	// Rate is the most submissions per second that the fleet takes out of each
	// lane's buffer; 0: no limit.
	Rate float64
	// Paused, where set, is asked before each poll: an operator's switch. See also
	// [Inbound.SetPaused].
	Paused func() bool
	// StandardWrites bounds the standard lane's writes per second by this
	// process, so that the urgent lane always finds room; 0: no bound.
	StandardWrites float64
	// RateShare is the part of each service's rate that the drain may use, over
	// the fleet, for jobs that are due already. Default 0.1.
	RateShare float64

	Pollers     int           // per lane at most; idle, they are two; default 16
	Wait        time.Duration // of a long poll; whole seconds; default 20 s
	Visibility  time.Duration // of a message received; whole seconds; default 60 s
	MaxHeld     int           // messages in hand, per lane; default 500
	MaxBytes    int           // their bodies in bytes, per lane; default 32 MiB
	Workers     int           // batches of inserts at once, per lane; default 8
	Linger      time.Duration // how long an insert waits for company; default 10 ms
	EpochsEvery time.Duration // between readings of the partition count; default 15 s
	Grace       time.Duration // for a shutdown; default 20 s

	// Dispatch overrides the dispatcher's own defaults; the wiring fields are ignored.
	Dispatch dispatch.Options

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

const (
	// margin is how long before a message becomes visible again the drain stops
	// working on it.
	margin = 10 * time.Second
	// maxEpochsEvery keeps the view of the partition count younger than the
	// minute by which a growth is announced ahead.
	maxEpochsEvery = 30 * time.Second
	minHeld        = 25
)

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Wait, 20*time.Second)
	def(&o.Visibility, time.Minute)
	def(&o.Linger, 10*time.Millisecond)
	def(&o.EpochsEvery, 15*time.Second)
	def(&o.Grace, 20*time.Second)
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.Pollers, 16)
	num(&o.MaxHeld, max(500, 2*queue.MaxBatch*o.Pollers))
	num(&o.MaxBytes, 32<<20)
	num(&o.Workers, 8)
	if o.RateShare == 0 {
		o.RateShare = 0.1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every option that is missing or outside its range; zero
// values that have a default are in range.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("inbound: "+format, args...)) }
	for name, missing := range map[string]bool{
		"Store": o.Store == nil, "Queue": o.Queue == nil, "Services": o.Services == nil, "Members": o.Members == nil,
		"Clock": o.Clock == nil, "URLs.DLQ": o.URLs.DLQ == "",
		"URLs.Inbound of the standard lane": o.URLs.Inbound[trigger.Standard] == "",
		"URLs.Inbound of the urgent lane":   o.URLs.Inbound[trigger.Urgent] == "",
	} {
		if missing {
			bad("%s is missing", name)
		}
	}
	if !trigger.ValidOwner(o.Owner) {
		bad("Owner %q; want 1 to 64 letters, digits, '-' and '_'", o.Owner)
	}
	d := *o
	d.setDefaults()
	if d.Rate < 0 || d.StandardWrites < 0 || d.RateShare < 0 || d.RateShare > 1 {
		bad("Rate %g, StandardWrites %g and RateShare %g; want 0 or more, 0 or more, and 0 to 1", d.Rate, d.StandardWrites, d.RateShare)
	}
	if d.Wait < 0 || d.Wait > queue.MaxWait {
		bad("Wait %s; want up to %s", d.Wait, queue.MaxWait)
	}
	if d.Visibility < 2*margin || d.Visibility > queue.MaxVisibility {
		bad("Visibility %s; want %s to %s", d.Visibility, 2*margin, queue.MaxVisibility)
	}
	if d.Pollers < 1 || d.Workers < 1 || d.MaxHeld < minHeld || d.MaxBytes < queue.MaxMessageBytes {
		bad("Pollers %d, Workers %d, MaxHeld %d, MaxBytes %d; want at least 1, 1, %d, %d",
			d.Pollers, d.Workers, d.MaxHeld, d.MaxBytes, minHeld, queue.MaxMessageBytes)
	}
	if d.Linger < 0 || d.Linger > time.Second || d.Grace < time.Second {
		bad("Linger %s and Grace %s; want 0 to 1s, and at least 1s", d.Linger, d.Grace)
	}
	if d.EpochsEvery < time.Second || d.EpochsEvery > maxEpochsEvery {
		bad("EpochsEvery %s; want 1s to %s: a growth is announced a minute ahead", d.EpochsEvery, maxEpochsEvery)
	}
	return errors.Join(errs...)
}

// Inbound drains the buffers.
type Inbound struct {
	o       Options
	metrics *metrics
	gates   *dispatch.Gates
	epochs  *epochs
	recent  *recent
	busy    *busy
	lanes   [len(trigger.Lanes)]*lane

	stopped atomic.Bool
	paused  atomic.Bool
	members atomic.Int64 // live ones
}

// New returns a drain, or the joined errors of its options.
func New(o Options) (*Inbound, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	in := &Inbound{o: o, recent: newRecent(o.Clock), busy: newBusy(), epochs: newEpochs(&o)}
	in.members.Store(1)
	var dm *dispatch.Metrics
	if o.Registerer != nil {
		var err error
		if in.metrics, err = newMetrics(o.Registerer, in); err != nil {
			return nil, fmt.Errorf("inbound metrics: %w", err)
		}
		if dm, err = dispatch.NewMetrics(o.Registerer); err != nil {
			return nil, fmt.Errorf("dispatch metrics: %w", err)
		}
	}
	in.gates = dispatch.NewGates(dispatch.GateOptions{
		Services: o.Services, Clock: o.Clock, Log: o.Log, Metrics: dm,
		Share: func() float64 { return o.RateShare / float64(in.members.Load()) },
	})
	for _, id := range trigger.Lanes {
		var writes *rate.Limiter
		if id == trigger.Standard && o.StandardWrites > 0 {
			writes = rate.NewLimiter(rate.Limit(o.StandardWrites), max(2*insertBatch, int(o.StandardWrites/4)))
		}
		do := o.Dispatch
		do.Lane, do.Table, do.Sender, do.Gates, do.Clock = id, o.Store, o.Queue, in.gates, o.Clock
		do.Writes, do.Log, do.Metrics = writes, o.Log, dm
		d, err := dispatch.New(do)
		if err != nil {
			return nil, err
		}
		if in.lanes[id], err = newLane(in, id, writes, d); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// SetPaused pauses or resumes polling. What is in hand is finished; what a poll
// under way still brings goes back into the buffer.
func (in *Inbound) SetPaused(paused bool) { in.paused.Store(paused) }

func (in *Inbound) isPaused() bool {
	return in.paused.Load() || in.o.Paused != nil && in.o.Paused()
}

// Run drains until ctx ends, then shuts down within Grace: it stops polling,
// finishes what is in hand, gives back what it cannot finish, and has what it
// claimed delivered or released. It returns nil after a clean end.
func (in *Inbound) Run(ctx context.Context) error {
	// Work in hand outlives ctx, until the grace period nears its end.
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	var loops sync.WaitGroup
	loops.Go(func() { in.epochs.run(ctx) })
	loops.Go(func() { in.follow(ctx) })
	for _, l := range in.lanes {
		l.begin(working)
		for i := range in.o.Pollers {
			loops.Go(func() { l.poll(ctx, i) })
		}
	}
	<-ctx.Done()
	in.stopped.Store(true)
	in.o.Log.Info("inbound stops: finishing what is in hand", "owner", in.o.Owner)
	for _, l := range in.lanes {
		close(l.stopping)
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.o.Grace)
	defer cancel()
	// The last quarter is for giving back.
	hurry := time.AfterFunc(in.o.Grace*3/4, giveUp)
	defer hurry.Stop()
	loops.Wait()
	errs := make([]error, len(in.lanes))
	var drains sync.WaitGroup
	for i, l := range in.lanes {
		drains.Go(func() { errs[i] = l.drain(grace) })
	}
	drains.Wait()
	// Only now: either lane's messages may have become claims of either lane.
	for i, l := range in.lanes {
		drains.Go(func() { errs[i] = errors.Join(errs[i], l.d.Drain(grace)) })
	}
	drains.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("inbound: shutdown ran out of its %s; the buffer delivers again what was left: %w", in.o.Grace, err)
	}
	return nil
}

// follow divides the rates anew whenever the membership changes.
func (in *Inbound) follow(ctx context.Context) {
	changes := in.o.Members.Changes()
	for {
		v := in.o.Members.View()
		n := max(len(v.Members), 1)
		if v.Self == "" && len(v.Members) > 0 {
			n++ // not counted yet, or no longer, but draining all the same
		}
		in.members.Store(int64(n))
		for _, l := range in.lanes {
			l.tokens.setRate(l.rate(n))
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// readyLate is how long the table or a buffer may fail before the process is
// not ready.
const readyLate = 30 * time.Second

// Ready reports why this process should not be counted on: stopping, clock, or
// a table or buffer that cannot be used. nil if it may.
func (in *Inbound) Ready() error {
	if in.stopped.Load() {
		return errors.New("inbound: stopping")
	}
	errs := []error{in.o.Clock.Ready(), in.epochs.ready()}
	for _, l := range in.lanes {
		if since := l.health.sickFor(); since > readyLate {
			errs = append(errs, fmt.Errorf("inbound: %s: the trigger table has been failing for %s", l.id, since.Round(time.Second)))
		}
		errs = append(errs, l.pollError())
	}
	return errors.Join(errs...)
}
