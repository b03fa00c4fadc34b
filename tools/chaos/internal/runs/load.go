package runs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// LoadOptions configure [NewLoad]. All are required.
type LoadOptions struct {
	Ledger *Ledger
	Pool   *Pool
	Target string  // its base URL
	Rate   float64 // jobs due once that are created a second
	Crons  int     // minutely jobs
	Say    func(format string, args ...any)
}

// Load makes, changes and ends jobs.
type Load struct {
	o       LoadOptions
	api     *jobsapi.Client
	working sync.WaitGroup
	busy    chan struct{}
}

// NewLoad returns one that has not begun.
func NewLoad(o LoadOptions) (*Load, error) {
	api, err := jobsapi.NewClient("http://api", jobsapi.ClientOptions{HTTP: &http.Client{Transport: o.Pool, Timeout: askFor}})
	return &Load{o: o, api: api, busy: make(chan struct{}, 32)}, err
}

// Run makes load until live ends. What was begun goes on until [Load.Wait].
func (l *Load) Run(ctx, live context.Context) {
	const turns = 10 // a second
	for i := range l.o.Crons {
		l.later(ctx, 0, func(call context.Context) { l.create(ctx, call, l.cron(i)) })
	}
	tick := time.NewTicker(time.Second / turns)
	defer tick.Stop()
	began, made := time.Now(), 0
	for live.Err() == nil {
		for n := int(time.Since(began).Seconds() * l.o.Rate); made < n; made++ {
			l.later(ctx, 0, func(call context.Context) { l.create(ctx, call, l.once()) })
		}
		select {
		case <-tick.C:
		case <-live.Done():
		}
	}
}

// Wait waits for every change that is under way or still to come.
func (l *Load) Wait() { l.working.Wait() }

// later makes a few calls at once.
func (l *Load) later(ctx context.Context, d time.Duration, call func(context.Context)) {
	l.working.Go(func() {
		if d > 0 && !pause(ctx, d) {
			return
		}
		select {
		case l.busy <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-l.busy }()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		call(ctx)
	})
}

// want is a job to be created, and what is to become of it.
type want struct {
	job  Job
	body jobsapi.CreateJob
	fate func(ctx context.Context, token string)
	at   time.Duration // after the answer
}

func (l *Load) body(path string, s jobsapi.Schedule, tries int) want {
	w := want{job: Job{Token: rand.Text(), Path: path, Cron: s.Expr, First: s.RunAt, Tries: tries}}
	group := path[1:]
	if path == pathDead {
		group += "-" + w.job.Token // its own breaker: one of them all would put most off for minutes
	}
	p, _ := json.Marshal(map[string]string{"token": w.job.Token}) // text
	w.body = jobsapi.CreateJob{
		Name: "chaos", Schedule: s, Target: jobsapi.Target{Type: "http", URL: l.o.Target + path, Group: group, Timeout: jobsapi.Duration(5 * time.Second)},
		Payload: p, Retry: &jobsapi.Retry{MaxAttempts: tries, Base: jobsapi.Duration(time.Second), Max: jobsapi.Duration(4 * time.Second)},
	}
	return w
}

// once is a job due some seconds ahead.
//
//nolint:gosec // load, not secrets.
func (l *Load) once() want {
	path, tries := pathOK, 12
	switch dice := mrand.N(100); {
	case dice < 15:
		path = pathFlaky
	case dice < 25:
		path = pathSlow
	case dice < 35:
		path = pathReset
	case dice < 45:
		path = pathLong
	case dice < 47:
		path, tries = pathDead, 2
	}
	ahead := 2*time.Second + mrand.N(18*time.Second)
	w := l.body(path, jobsapi.Schedule{Type: "once", RunAt: time.Now().Add(ahead).UTC().Truncate(time.Millisecond)}, tries)
	if mrand.N(5) == 0 {
		urgent := jobsapi.Duration(0)
		w.body.DelayTolerance = &urgent
	}
	w.at = mrand.N(ahead)
	switch dice := mrand.N(100); {
	case dice < 6:
		w.fate = l.delete
	case dice < 12:
		w.fate = l.cancel
	case dice < 18:
		w.fate = l.move
	case dice < 22:
		w.fate = l.pauseAndResume
	}
	return w
}

// Burst makes jobs whose calls take a while and are due about a time, so that
// something is under way then.
func (l *Load) Burst(ctx context.Context, about time.Time) {
	const jobs, within = 12, 6 * time.Second
	for i := range jobs {
		due := about.Add(-within + time.Duration(i)*within/jobs).UTC().Truncate(time.Millisecond)
		w := l.body(pathSlow, jobsapi.Schedule{Type: "once", RunAt: due}, 12)
		l.later(ctx, 0, func(call context.Context) { l.create(ctx, call, w) })
	}
}

// cron is the i-th minutely job.
func (l *Load) cron(i int) want {
	zones := []string{"UTC", "Asia/Ho_Chi_Minh", "America/Los_Angeles", "Asia/Kathmandu"}
	paths := []string{pathOK, pathSlow, pathOK, pathFlaky, pathLong, pathReset}
	w := l.body(paths[i%len(paths)], jobsapi.Schedule{Type: "cron", Expr: "* * * * *", TZ: zones[i%len(zones)]}, 12)
	w.body.Overlap = []string{"allow", "allow", "skip", "queue"}[i%4]
	w.at = time.Duration(20+5*i) * time.Second
	switch i % 6 {
	case 3:
		w.fate = l.pauseAndResume
	case 4:
		w.fate = l.delete
	case 5:
		w.fate = l.reschedule
	}
	return w
}

// create asks until there is an answer, for a while.
func (l *Load) create(ctx, call context.Context, w want) {
	l.o.Ledger.Add(w.job)
	key := "chaos-" + w.job.Token
	for call.Err() == nil {
		got, err := l.api.CreateJob(call, &w.body, key)
		l.o.Ledger.asked(err)
		if err == nil {
			l.o.Ledger.With(w.job.Token, func(j *Job) { j.ID, j.Created = got.ID, time.Now() })
			l.o.Ledger.settled(w.job.Token, &got)
			if w.fate != nil {
				// Its own goroutine: what it waits for holds up no creation.
				l.later(ctx, w.at, func(ctx context.Context) { w.fate(ctx, w.job.Token) })
			}
			return
		}
		if refusal(err) {
			l.o.Ledger.Breach(fmt.Sprintf("a job was refused: %v", err))
			return
		}
		pause(call, time.Second)
	}
}

// refusal reports whether an error is the API's word that a request is wrong.
func refusal(err error) bool {
	var p *jobsapi.Problem
	return errors.As(err, &p) && p.Status/100 == 4 && p.Status != http.StatusTooManyRequests && p.Status != http.StatusConflict
}

// change makes a change until there is an answer; false without one.
func (l *Load) change(ctx context.Context, token string, call func(j Job) (jobsapi.Job, error), note func(*Job, *jobsapi.Job)) bool {
	var before Job
	l.o.Ledger.With(token, func(j *Job) { j.Edited, j.Unsure, before = true, true, *j })
	for ctx.Err() == nil {
		got, err := call(before)
		l.o.Ledger.asked(err)
		if err == nil {
			l.o.Ledger.settled(token, &got)
			l.o.Ledger.With(token, func(j *Job) { j.Unsure = false; note(j, &got) })
			return true
		}
		if refusal(err) {
			l.o.Ledger.Breach(fmt.Sprintf("a change of job %s was refused: %v", before.ID, err))
			return false
		}
		pause(ctx, time.Second)
	}
	return false
}

func (l *Load) delete(ctx context.Context, token string) {
	l.change(ctx, token, func(j Job) (jobsapi.Job, error) { return l.api.DeleteJob(ctx, j.ID, 0) }, func(j *Job, got *jobsapi.Job) {
		j.Deleted, j.Gone = true, true
		j.Voids = append(j.Voids, Void{time.Now(), got.Generation + 1, "deleted"})
	})
}

// patch changes a job; what it waited for, it no longer does.
func (l *Load) patch(ctx context.Context, token string, body *jobsapi.PatchJob, note func(*Job, *jobsapi.Job)) bool {
	return l.change(ctx, token, func(j Job) (jobsapi.Job, error) { return l.api.PatchJob(ctx, j.ID, 0, body) }, func(j *Job, got *jobsapi.Job) {
		j.Voids = append(j.Voids, Void{time.Now(), got.Generation, "changed"})
		note(j, got)
	})
}

func (l *Load) move(ctx context.Context, token string) {
	s := jobsapi.Schedule{Type: "once", RunAt: time.Now().Add(5*time.Second + mrand.N(10*time.Second)).UTC().Truncate(time.Millisecond)} //nolint:gosec // load.
	l.patch(ctx, token, &jobsapi.PatchJob{Schedule: &s}, func(*Job, *jobsapi.Job) {})
}

func (l *Load) reschedule(ctx context.Context, token string) {
	s := jobsapi.Schedule{Type: "cron", Expr: "*/1 * * * *", TZ: "Europe/London"}
	l.patch(ctx, token, &jobsapi.PatchJob{Schedule: &s}, func(*Job, *jobsapi.Job) {})
}

func (l *Load) pauseAndResume(ctx context.Context, token string) {
	paused, active := "paused", "active"
	if !l.patch(ctx, token, &jobsapi.PatchJob{Status: &paused}, func(j *Job, got *jobsapi.Job) {
		j.Gone = true
		j.Voids[len(j.Voids)-1].Below = got.Generation + 1
	}) {
		return
	}
	pause(ctx, 3*time.Second)
	l.patch(ctx, token, &jobsapi.PatchJob{Status: &active}, func(j *Job, got *jobsapi.Job) {
		j.Gone = got.NextRunAt == nil // its time passed while it was paused, or it has run
	})
}

// cancel cancels the run that waits.
func (l *Load) cancel(ctx context.Context, token string) {
	var id string
	l.o.Ledger.With(token, func(j *Job) { j.Edited, j.Unsure, id = true, true, j.RunID })
	unknown := false
	defer func() {
		if unknown {
			l.o.Ledger.Breach("run " + id + " was told by the API, and a cancel does not find it")
		}
	}()
	for ctx.Err() == nil {
		got, err := l.api.CancelRun(ctx, id)
		l.o.Ledger.asked(err)
		var p *jobsapi.Problem
		over := errors.As(err, &p) && p.Status == http.StatusConflict
		// Between the arming of the next occurrence and the beginning of its call a
		// run has no record: that passes.
		if unknown = p != nil && p.Status == http.StatusNotFound; unknown {
			pause(ctx, time.Second)
			continue
		}
		if err == nil || over {
			l.o.Ledger.With(token, func(j *Job) {
				j.Unsure = false // if it was over, it has an end, which may be this cancel's
				if err == nil && got.Status == "CANCELLED" {
					j.Gone, j.Cancelled[id] = true, time.Now()
				}
			})
			return
		}
		if refusal(err) {
			l.o.Ledger.Breach(fmt.Sprintf("a cancel of run %s was refused: %v", id, err))
			return
		}
		pause(ctx, time.Second)
	}
}

// EndCrons deletes the minutely jobs that are left, so that nothing is to come.
func (l *Load) EndCrons(ctx context.Context) {
	for _, j := range l.o.Ledger.list(func(j *Job) bool { return j.Cron != "" && j.ID != "" && !j.Deleted }) {
		l.later(ctx, 0, func(ctx context.Context) { l.delete(ctx, j.Token) })
	}
	l.working.Wait()
}

// Probed is how available the API was while it was rolled.
type Probed struct {
	Requests, Failed int
	Refused          int64 // connections that the other process took
	Slowest          time.Duration
}

// Probe asks and creates at a steady rate until live ends. A request is made
// once; only a refused connection leads to the next address.
func (l *Load) Probe(ctx, live context.Context) Probed {
	var p Probed
	api, err := jobsapi.NewClient("http://api", jobsapi.ClientOptions{HTTP: &http.Client{Transport: l.o.Pool, Timeout: askFor}, Attempts: 1})
	if err != nil {
		return Probed{Failed: 1}
	}
	known := l.o.Ledger.list(func(j *Job) bool { return j.ID != "" })
	if len(known) == 0 {
		return p
	}
	before := l.o.Pool.refused.Load()
	var mu sync.Mutex
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for n := 0; live.Err() == nil; n++ {
		l.later(ctx, 0, func(ctx context.Context) {
			began := time.Now()
			var err error
			if n%20 == 0 {
				w := l.once()
				l.o.Ledger.Add(w.job)
				var got jobsapi.Job
				if got, err = api.CreateJob(ctx, &w.body, "chaos-"+w.job.Token); err == nil {
					l.o.Ledger.With(w.job.Token, func(j *Job) { j.ID, j.Created = got.ID, time.Now() })
					l.o.Ledger.settled(w.job.Token, &got)
				}
			} else {
				_, err = api.Job(ctx, known[n%len(known)].ID)
			}
			mu.Lock()
			defer mu.Unlock()
			p.Requests++
			p.Slowest = max(p.Slowest, time.Since(began))
			if err != nil {
				p.Failed++
				l.o.Say("api     a request failed while the API was rolled: %v", err)
			}
		})
		select {
		case <-tick.C:
		case <-live.Done():
		}
	}
	l.working.Wait()
	p.Refused = l.o.Pool.refused.Load() - before
	return p
}

// Availability is the share of requests that succeeded; 0 without any.
func (p *Probed) Availability() float64 {
	if p.Requests == 0 {
		return 0
	}
	return 1 - float64(p.Failed)/float64(p.Requests)
}
