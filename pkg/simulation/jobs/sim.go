package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Sizes of a seed's world. Zero values take the default.
type Sizes struct {
	Jobs    int           // default 26
	Faults  int           // default 24; negative: none
	Actions int           // edits and the like; default 24
	Span    time.Duration // in which things happen; default 12 min
}

// Report is what a seed's world came to.
type Report struct {
	Jobs, Runs, Occurrences, Calls, Crashes, Kills int
	States                                         map[job.State]int
	Faults                                         []string
}

// sim is one seed's world.
type sim struct {
	*World
	seed   uint64
	start  time.Time
	rand   *rand.Rand // of the driver alone
	faults []fault
	o      Sizes
	kills  int
	calm   atomic.Bool // targets are well again

	helpers sync.WaitGroup // targets that go on after a 202
	mu      sync.Mutex
	made    []trigger.ID
	touched map[trigger.ID]bool // by an action: a job that ran once may not run
}

// Run lives through the world of a seed and returns every breach of a promise.
func Run(seed uint64, o Sizes) ([]string, Report, error) {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Jobs, 26)
	def(&o.Faults, 24)
	def(&o.Actions, 24)
	if o.Span == 0 {
		o.Span = 12 * time.Minute
	}
	s := &sim{seed: seed, o: o, touched: map[trigger.ID]bool{}}
	s.rand = rand.New(rand.NewPCG(seed, 0x6a6f6273)) //nolint:gosec // to be repeated.
	// Some worlds live through the clock's changes of Berlin, at 01:00 UTC.
	switch seed % 3 {
	case 1:
		time.Sleep(time.Until(time.Date(2000, 3, 26, 0, 54, 0, 0, time.UTC)))
	case 2:
		time.Sleep(time.Until(time.Date(2000, 10, 29, 0, 54, 0, 0, time.UTC)))
	}
	s.start = time.Now()
	if o.Faults > 0 {
		s.faults = planFaults(s.rand, o.Faults, o.Span)
	}
	var err error
	s.World, err = New(Options{Answer: s.answer, StoreFault: s.storeFault, QueueFault: s.queueFault, Lost: s.lost})
	if err != nil {
		return nil, Report{}, err
	}
	for range 3 {
		if _, err := s.Start(); err != nil {
			return nil, Report{}, err
		}
	}
	s.live()
	// Everything is over; what it left behind is found, and the jobs go on.
	time.Sleep(15 * time.Minute)
	breaches := s.pending()
	for _, id := range s.made {
		_, _ = s.Control.Edit(context.Background(), jobcontrol.Actor{}, id, 0, func(j *job.Job) error {
			if j.Schedule.Recurs() {
				j.Status = job.JobIsPaused
			}
			return nil
		})
	}
	s.calm.Store(true)
	time.Sleep(10 * time.Minute)
	s.helpers.Wait()
	breaches = append(breaches, s.ended()...)
	accounts, occurrences := s.Account()
	breaches = append(append(breaches, accounts...), s.Breaches()...)
	r := s.report(occurrences)
	s.Close()
	return breaches, r, nil
}

// live plays the plan.
func (s *sim) live() {
	var all sync.WaitGroup
	at := func(d time.Duration, f func()) {
		all.Go(func() {
			time.Sleep(time.Until(s.start.Add(d)))
			f()
		})
	}
	for range s.o.Jobs {
		d, spec := s.within(s.o.Span/2), s.spec()
		at(d, func() { s.create(spec) })
	}
	for i := range s.o.Actions {
		d, n, what := s.within(s.o.Span), s.rand.IntN(1000), s.rand.IntN(9)
		at(d, func() { s.act(i, n, what) })
	}
	for _, f := range s.faults {
		at(f.from, func() { s.happen(f) })
	}
	all.Wait()
}

func (s *sim) within(d time.Duration) time.Duration {
	return time.Duration(s.rand.Float64() * float64(d)).Truncate(time.Millisecond)
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (s *sim) spec() job.Spec {
	r := s.rand
	behaviour := pick(r, "ok", "ok", "ok", "slow", "flaky", "flaky", "refused", "gone", "accept", "accept", "hang")
	sp := job.Spec{
		Tenant: pick(r, "acme", "umbrella"), Payload: []byte(behaviour), Overlap: pick(r, job.OverlapAllow, job.OverlapSkip, job.OverlapQueue),
		Target: job.Target{
			Type: job.TargetHTTP, URL: "https://" + behaviour + ".example/", Timeout: pick(r, 5*time.Second, 20*time.Second, time.Minute),
			Group: fmt.Sprint(behaviour, r.IntN(5)),
		},
		Retry: job.Retry{MaxAttempts: 1 + r.IntN(4), Base: pick(r, time.Second, 5*time.Second), Max: 20 * time.Second},
	}
	if r.IntN(3) == 0 {
		sp.Schedule.At = s.start.Add(s.within(s.o.Span)).UTC()
	} else {
		sp.Schedule = job.Timing{
			Cron: pick(r, "* * * * *", "* * * * *", "*/5 * * * *", "*/2 * * * *", "*/3 1-3 * * *"),
			Zone: pick(r, "UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"),
			Policy: cron.Policy{
				Gap: pick(r, cron.GapShift, cron.GapSkip), Fold: pick(r, cron.FoldFirst, cron.FoldBoth),
			},
		}
		sp.CatchUp = pick(r, job.CatchUpLatest, job.CatchUpAll, job.CatchUpSkip)
	}
	if r.IntN(4) == 0 {
		t := pick(r, 0, 20*time.Second, 2*time.Minute)
		sp.Tolerance = &t
	}
	return sp.WithDefaults()
}

func (s *sim) create(sp job.Spec) {
	c, err := s.Behind()
	if err != nil {
		panic(err) // the world itself is wrong
	}
	for range 20 {
		j, err := c.Create(context.Background(), jobcontrol.Actor{Tenant: sp.Tenant, Subject: "sim"}, sp, nil)
		if err == nil {
			s.mu.Lock()
			s.made = append(s.made, j.ID)
			s.mu.Unlock()
			return
		}
		time.Sleep(time.Second)
	}
}

// act does to some job what people do.
func (s *sim) act(i, n, what int) {
	s.mu.Lock()
	if len(s.made) == 0 {
		s.mu.Unlock()
		return
	}
	id := s.made[n%len(s.made)]
	s.touched[id] = true
	s.mu.Unlock()
	c, err := s.Behind()
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	who := jobcontrol.Actor{Tenant: "acme", Subject: "sim"}
	edit := func(f func(j *job.Job)) {
		_, _ = c.Edit(ctx, who, id, 0, func(j *job.Job) error { f(j); return nil })
	}
	switch what {
	case 0, 1:
		edit(func(j *job.Job) { j.Status = job.JobIsPaused })
		time.Sleep(time.Duration(n%90) * time.Second)
		edit(func(j *job.Job) { j.Status = job.JobIsActive })
	case 2, 3:
		edit(func(j *job.Job) {
			if j.Schedule.Recurs() {
				j.Schedule.Cron = []string{"* * * * *", "*/2 * * * *", "1-59/4 * * * *"}[n%3]
			} else {
				j.Schedule.At = time.Now().Add(time.Duration(n%100) * time.Second).UTC().Truncate(time.Millisecond)
			}
		})
	case 4:
		edit(func(j *job.Job) { j.Overlap = []job.Overlap{job.OverlapAllow, job.OverlapSkip, job.OverlapQueue}[n%3] })
	case 5:
		if i%3 == 0 {
			_, _ = c.Delete(ctx, who, id, 0)
		}
	case 6:
		_, _ = c.RunNow(ctx, who, id)
	default:
		s.cancelOrRedrive(ctx, c, who, id, n)
	}
}

func (s *sim) cancelOrRedrive(ctx context.Context, c *jobcontrol.Control, who jobcontrol.Actor, id trigger.ID, n int) {
	j := s.Job(id)
	if n%2 == 0 && !j.Pending.IsZero() {
		_, _ = c.CancelRun(ctx, who, job.NewRunID(id, j.Generation, j.Pending))
		return
	}
	for _, r := range slices.Backward(s.Runs(id)) {
		switch {
		case r.State == job.Dead:
			_, _ = c.Redrive(ctx, who, r.ID)
			return
		case !r.State.Terminal():
			_, _ = c.CancelRun(ctx, who, r.ID)
			return
		}
	}
}

// answer is what a target does: a function of its kind, the run and the call.
func (s *sim) answer(a runner.Attempt, n int) Answer {
	draw := func(what string) float64 {
		return float64(xxhash.Sum64String(fmt.Sprint(s.seed, a.Run.Nominal.Unix(), a.Run.Kind, n, what))>>11) / (1 << 53)
	}
	secs := func(lo, hi float64) time.Duration {
		return time.Duration((lo + (hi-lo)*draw("took")) * float64(time.Second))
	}
	switch {
	case a.Run.Kind == job.Notice, s.calm.Load():
		return Answer{Code: 200}
	case string(a.Payload) == "slow":
		return Answer{Code: 200, Took: secs(5, 70)}
	case string(a.Payload) == "hang":
		return Answer{Took: time.Hour}
	case string(a.Payload) == "refused" && draw("what") < 0.5:
		return Answer{Code: 404}
	case string(a.Payload) == "gone" && draw("what") < 0.1:
		return Answer{Code: 410}
	case string(a.Payload) == "flaky" && draw("what") < 0.6:
		if draw("which") < 0.3 {
			return Answer{Kind: target.KindReset, Took: secs(0, 3)}
		}
		return Answer{Code: 503, Took: secs(0, 3)}
	case string(a.Payload) == "accept":
		s.helpers.Go(func() { s.accepted(a.Run, secs(0, 100), draw("end")) })
		return Answer{Code: 202, Took: secs(0, 1)}
	}
	return Answer{Code: 200, Took: secs(0, 2)}
}

// accepted is the target of an accepted run at work.
func (s *sim) accepted(r job.Run, works time.Duration, how float64) {
	ctx := context.Background()
	for end := time.Now().Add(works); time.Now().Before(end); {
		time.Sleep(10 * time.Second)
		beat, err := s.Control.Heartbeat(ctx, r.ID, r.Attempt)
		if err != nil || beat.CancelRequested {
			break
		}
	}
	if how < 0.8 {
		_, _ = s.Control.Complete(ctx, r.ID, r.Attempt, how < 0.6, "done")
	}
}

// happen plays a fault that is an event, and its end.
func (s *sim) happen(f fault) {
	live := s.Live()
	p := live[f.target%len(live)]
	switch f.kind {
	case killRunner:
		s.mu.Lock()
		s.kills++
		s.mu.Unlock()
		left := f.target % 40
		p.OnStep(func(int, string) bool { left--; return left < 0 })
		time.Sleep(f.length)
		p.Kill()
		s.again()
	case rollRunner:
		s.again()
		p.Stop()
		s.Tell()
	case freezeRunner:
		p.Freeze(f.length)
		time.Sleep(f.length)
	case clockStep:
		p.Step(f.by)
		time.Sleep(f.length)
		p.Step(-f.by)
	case outage:
		s.Outage(true)
		time.Sleep(f.length)
		s.Outage(false)
	default:
		time.Sleep(f.length)
	}
}

func (s *sim) again() {
	if _, err := s.Start(); err != nil {
		panic(err)
	}
}
