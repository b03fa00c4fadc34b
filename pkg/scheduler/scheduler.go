// Package scheduler owns the loop that finds due triggers and has them
// delivered: it reads the partitions it owns ahead of time, acquires rows
// shortly before they are due, hands them to package dispatch, sweeps up what
// dead processes left, and shuts down without duplicates.
//
// Two lanes run side by side and share nothing but the process, the breakers'
// knowledge of services and the clock. Nothing is acquired while the clock is
// unusable. A [Scheduler] runs once.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/partition"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Store is what the scheduler needs of the trigger table.
type Store interface {
	dispatch.Table
	Range(ctx context.Context, r store.Range) (store.Page, error)
	Epochs(ctx context.Context) (trigger.Epochs, error)
}

// Options configure a [Scheduler]. Durations of zero take the default.
type Options struct {
	Store    Store
	Sender   queue.Sender
	Services dispatch.Services
	Members  membership.Provider
	Clock    *clock.Clock
	// Owner names this start of this process in the rows it acquires; see
	// [trigger.ValidOwner]. It must never be used by two starts.
	Owner string

	Tick        time.Duration // between passes over a partition; default 500 ms
	IdleTick    time.Duration // the same where nothing is found; default 2 s
	LookAhead   time.Duration // how far ahead rows are read; default 4 s; above IdleTick
	FloorMargin time.Duration // how far behind now passes look for late rows; default 4 s
	Lead        time.Duration // before the due time rows are acquired; default 100 ms
	SweepEvery  time.Duration // between sweeps of a large head; default 60 s
	StaleAfter  time.Duration // age of a claim that others recover; default 60 s
	Grace       time.Duration // for a shutdown; default 20 s
	EpochsEvery time.Duration // between readings of the partition count; default 15 s

	HeapBytes      int // rows held in memory, all lanes; default 128 MiB
	MaxClaimed     int // rows acquired and not finished, per lane; default 4000
	AcquireWorkers int // acquiring batches at once, per lane; default 8
	BusyRows       int // known rows in a pass above which the next reads only their keys and states; default 200
	// StandardWrites bounds the standard lane's writes per second by this
	// process, so that the urgent lane always finds room; 0: no bound.
	StandardWrites float64
	// RateShare is the part of each service's rate that schedulers may use; the
	// rest is left to jobs that inbound delivers at once. Default 0.9.
	RateShare float64

	// Dispatch overrides the dispatcher's own defaults; the wiring fields are ignored.
	Dispatch dispatch.Options

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Tick, 500*time.Millisecond)
	def(&o.IdleTick, max(2*time.Second, o.Tick))
	def(&o.LookAhead, 4*time.Second)
	def(&o.FloorMargin, 4*time.Second)
	def(&o.Lead, 100*time.Millisecond)
	def(&o.SweepEvery, time.Minute)
	def(&o.StaleAfter, time.Minute)
	def(&o.Grace, 20*time.Second)
	def(&o.EpochsEvery, 15*time.Second)
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	num(&o.HeapBytes, 128<<20)
	num(&o.MaxClaimed, 4000)
	num(&o.AcquireWorkers, 8)
	num(&o.BusyRows, 200)
	if o.RateShare == 0 {
		o.RateShare = 0.9
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every option that is missing or outside its range; zero
// values that have a default are in range.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("scheduler: "+format, args...)) }
	for name, missing := range map[string]bool{
		"Store": o.Store == nil, "Sender": o.Sender == nil, "Services": o.Services == nil,
		"Members": o.Members == nil, "Clock": o.Clock == nil,
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
	if d.Tick < 10*time.Millisecond || d.IdleTick < d.Tick {
		bad("Tick %s and IdleTick %s; want at least 10ms, and IdleTick not below Tick", d.Tick, d.IdleTick)
	}
	if d.LookAhead <= d.IdleTick {
		bad("LookAhead %s; want more than IdleTick %s, or rows are found after they are due", d.LookAhead, d.IdleTick)
	}
	if d.Lead < 0 || d.Lead > 5*time.Second {
		bad("Lead %s; want 0 to 5s", d.Lead)
	}
	if d.StaleAfter < time.Minute {
		bad("StaleAfter %s; want at least 1m: claims are acted on for up to 30s, by clocks up to seconds apart", d.StaleAfter)
	}
	if d.HeapBytes < 1<<20 || d.MaxClaimed < acquireBatch || d.AcquireWorkers < 1 || d.BusyRows < 1 {
		bad("HeapBytes %d, MaxClaimed %d, AcquireWorkers %d, BusyRows %d; want at least 1 MiB, %d, 1, 1", d.HeapBytes, d.MaxClaimed, d.AcquireWorkers, d.BusyRows, acquireBatch)
	}
	if d.StandardWrites < 0 || d.RateShare < 0 || d.RateShare > 1 {
		bad("StandardWrites %g and RateShare %g; want 0 or more, and 0 to 1", d.StandardWrites, d.RateShare)
	}
	return errors.Join(errs...)
}

// Scheduler delivers the triggers of the partitions it owns.
type Scheduler struct {
	o       Options
	metrics *metrics
	lanes   []*lane

	mu      sync.Mutex
	epochs  trigger.Epochs
	view    membership.View
	stopped bool
	settled bool // every partition was read once: those taken over later do not make it unready
}

// New returns a scheduler, or the joined errors of its options.
func New(o Options) (*Scheduler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	s := &Scheduler{o: o}
	var dm *dispatch.Metrics
	if o.Registerer != nil {
		var err error
		if s.metrics, err = newMetrics(o.Registerer, s); err != nil {
			return nil, fmt.Errorf("scheduler metrics: %w", err)
		}
		if dm, err = dispatch.NewMetrics(o.Registerer); err != nil {
			return nil, fmt.Errorf("dispatch metrics: %w", err)
		}
	}
	gates := dispatch.NewGates(dispatch.GateOptions{
		Services: o.Services, Clock: o.Clock, Share: s.rateShare, Log: o.Log, Metrics: dm,
	})
	for _, id := range trigger.Lanes {
		l := &lane{
			id: id, s: s, gates: gates, pending: newPending(), wake: make(chan struct{}, 1),
			slots: make(chan struct{}, o.AcquireWorkers), calls: batch.NewPool(), parts: make(map[int]*ownedPart),
		}
		if id == trigger.Standard && o.StandardWrites > 0 {
			l.writes = rate.NewLimiter(rate.Limit(o.StandardWrites), max(2*acquireBatch, int(o.StandardWrites/4)))
		}
		do := o.Dispatch
		do.Lane, do.Table, do.Sender, do.Gates, do.Clock = id, o.Store, o.Sender, gates, o.Clock
		do.Writes, do.Log, do.Metrics = l.writes, o.Log, dm
		var err error
		if l.d, err = dispatch.New(do); err != nil {
			return nil, err
		}
		s.lanes = append(s.lanes, l)
	}
	return s, nil
}

// rateShare is this process's part of a service's fleet-wide rate: its part of
// the partitions.
func (s *Scheduler) rateShare() float64 {
	most := 0.0
	for _, l := range s.lanes {
		if own, of := l.owned(); of > 0 {
			most = max(most, float64(own)/float64(of))
		}
	}
	return s.o.RateShare * most
}

// Run schedules until ctx ends, then shuts down: it stops acquiring, sends and
// finishes what is acquired, and releases the rest, within Grace. It returns
// nil after a clean end.
func (s *Scheduler) Run(ctx context.Context) error {
	reading, stopReading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReading()
	acquiring, stopAcquiring := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAcquiring()
	var loops sync.WaitGroup
	for _, l := range s.lanes {
		loops.Go(func() {
			l.run(acquiring)
		})
	}
	s.follow(ctx, reading)

	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.o.Log.Info("scheduler stops: finishing what is acquired", "owner", s.o.Owner)
	stopReading()
	stopAcquiring()
	loops.Wait()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	errs := make([]error, len(s.lanes))
	var drains sync.WaitGroup
	for i, l := range s.lanes {
		drains.Go(func() {
			errs[i] = l.d.Drain(grace)
			l.reading.Wait()
		})
	}
	drains.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scheduler: shutdown ran out of its %s; what was left acquired is recovered by others: %w", s.o.Grace, err)
	}
	return nil
}

// follow keeps the owned partitions in step with the membership and the
// partition count until ctx ends.
func (s *Scheduler) follow(ctx, reading context.Context) {
	changes := s.o.Members.Changes()
	wait := time.Duration(0)
	failures := 0
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-timer.C:
			epochs, err := s.o.Store.Epochs(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return
				}
				failures++
				s.o.Log.Warn("partition count cannot be read", "failures", failures, "error", err)
				timer.Reset(jitter(min(errorPause<<min(failures-1, 8), errorMost)))
			} else {
				failures = 0
				s.setEpochs(epochs)
				timer.Reset(jitter(s.o.EpochsEvery))
			}
		}
		s.assign(reading)
	}
}

func (s *Scheduler) setEpochs(e trigger.Epochs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs != nil && e.Max() < s.epochs.Max() {
		s.o.Log.Error("partition count shrank in the settings row; the larger one stays in use", "was", s.epochs.Max(), "read", e.Max())
		return
	}
	s.epochs = e
}

// assign takes and gives up partitions by the newest view and count.
func (s *Scheduler) assign(reading context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs == nil {
		return
	}
	s.view = s.o.Members.View()
	n := s.epochs.Max()
	for _, l := range s.lanes {
		l.own(reading, partition.Owned(s.view.Self, s.view.Members, n, l.id.String()), n)
	}
}

// Owned lists the partitions this process owns, by lane.
func (s *Scheduler) Owned() map[trigger.Lane][]int {
	owned := make(map[trigger.Lane][]int, len(s.lanes))
	for _, l := range s.lanes {
		l.mu.Lock()
		for id := range l.parts {
			owned[l.id] = append(owned[l.id], id)
		}
		l.mu.Unlock()
	}
	return owned
}

// Ready reports why this process should not be counted on: stopping, clock,
// membership, or partitions that have not been read for long. nil if it may.
func (s *Scheduler) Ready() error {
	s.mu.Lock()
	stopped, epochs, view, settled := s.stopped, s.epochs, s.view, s.settled
	s.mu.Unlock()
	switch {
	case stopped:
		return errors.New("scheduler: stopping")
	case epochs == nil:
		return errors.New("scheduler: partition count not read yet")
	case view.Self == "":
		return errors.New("scheduler: not a member yet")
	}
	errs := []error{s.o.Clock.Ready()}
	firsts := 0
	local := s.o.Clock.Local()
	for _, l := range s.lanes {
		first, late := 0, 0
		l.mu.Lock()
		for _, p := range l.parts {
			p.mu.Lock()
			if !p.complete && !p.blocked {
				first++
			}
			if !p.blocked && local.Sub(p.progress) > readyLate {
				late++
			}
			p.mu.Unlock()
		}
		l.mu.Unlock()
		firsts += first
		if first > 0 && !settled {
			errs = append(errs, fmt.Errorf("scheduler: %d %s partitions not read to the end yet", first, l.id))
		} else if late > 0 {
			errs = append(errs, fmt.Errorf("scheduler: %d %s partitions not read for over %s", late, l.id, readyLate))
		}
	}
	if firsts == 0 {
		s.mu.Lock()
		s.settled = true
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// readyLate is the time without a page read of a partition above which the
// process is not ready.
const readyLate = 30 * time.Second
