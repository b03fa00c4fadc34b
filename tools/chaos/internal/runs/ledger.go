// Package runs owns the account of the managed layer in a run: the jobs that were
// made over the API ([Load]), the target that their runs call ([Target]), what the
// API answered (the [Ledger]), and whether these agree with what Myosin promises
// ([Verdict]).
//
// It goes by its own notes and reads the platform's records only to compare them
// with those. Everything but Verdict may be used concurrently.
package runs

import (
	"regexp"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
)

// Void is a promise of an answer: no run of a generation below Below, whose
// nominal time is after At, is called.
type Void struct {
	At    time.Time
	Below int64
	Why   string
}

// Job is what its creator knows of one.
type Job struct {
	Token string // its payload: by that the target knows it
	ID    string // empty: no answer came
	Path  string // of the target
	Cron  string // expression; empty: once
	// Created is when the answer came; First is the nominal time that it told.
	Created, First time.Time
	RunID          string // the pending run, as the last answer told
	Tries          int    // the most attempts that may fail
	Edited         bool   // an edit, pause, cancel or delete was answered, or its outcome is unknown
	Unsure         bool   // one has no answer
	Deleted        bool   // by an answer
	Gone           bool   // nothing is to come: cancelled, deleted or paused for good
	Voids          []Void
	Cancelled      map[string]time.Time // runs that an answer told were cancelled
}

// Call is one call of the target.
type Call struct {
	Run, Attempt, Path string
	Token              string
	At, End            time.Time
	// Worked: the target did what it was to do, whether or not anybody heard.
	Worked bool
	Unsure bool // it may count as not done: the answer to its completion was lost
}

// Touch is one call of a process to the backend that names a job.
type Touch struct {
	By, Op    string
	From, To  time.Time
	Fault     string
	Answered  bool
	Messages  bool // of a queue
	Delivered bool // to the endpoint
}

// Ledger holds what is known of jobs and their calls.
type Ledger struct {
	mu       sync.Mutex
	jobs     map[string]*Job // by token
	calls    []Call
	touches  map[string][]Touch // by job id
	breaches []string
	requests int // of the load
	failed   int
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	return &Ledger{jobs: make(map[string]*Job), touches: make(map[string][]Touch)}
}

// With changes a job; one that is not known is not.
func (l *Ledger) With(token string, change func(*Job)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j := l.jobs[token]; j != nil {
		change(j)
	}
}

// Add notes a job that is about to be created.
func (l *Ledger) Add(j Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.Cancelled = make(map[string]time.Time)
	l.jobs[j.Token] = &j
}

// Called notes a call that has ended.
func (l *Ledger) Called(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, *c)
}

// Breach notes what no caller should see.
func (l *Ledger) Breach(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaches = append(l.breaches, text)
}

// asked counts a request of the load.
func (l *Ledger) asked(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if err != nil {
		l.failed++
	}
}

// list returns copies of the jobs that fit.
func (l *Ledger) list(fits func(*Job) bool) (out []Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if fits(j) {
			out = append(out, *j)
		}
	}
	return out
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Seen notes a call of a process of the managed layer, as its proxy saw it.
func (l *Ledger) Seen(c *journal.Call, body []byte, o *journal.Outcome) {
	if c.Op == "ReceiveMessage" {
		return
	}
	t := Touch{
		By: o.By, Op: c.Op, From: o.Began, To: time.Now(), Fault: o.Fault, Answered: o.Answered, Messages: c.SQS, Delivered: o.Status != 0,
	}
	if o.Status >= 500 && t.Fault == "" {
		t.Fault = "the endpoint failed"
	}
	ids := make(map[string]bool)
	for _, id := range uuid.FindAll(body, -1) {
		ids[string(id)] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range ids {
		l.touches[id] = append(l.touches[id], t)
	}
}

// settled notes what an answer told of a job.
func (l *Ledger) settled(token string, got *jobsapi.Job) {
	l.With(token, func(j *Job) {
		j.RunID = got.NextRunID
		if got.NextRunAt != nil {
			j.First = *got.NextRunAt
		}
	})
}
