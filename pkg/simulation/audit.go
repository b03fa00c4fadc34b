package simulation

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// job is what the auditor knows of one trigger.
type job struct {
	id       string
	service  string
	accepted bool // a submission was acknowledged
	offered  bool // at least one was attempted
	// dues are the due times it may fire at: more than one while the outcome of
	// a move is unknown.
	dues      map[int64]bool
	movedFrom map[int64]time.Time // due times it was moved away from, and when
	cancelled time.Time           // when a cancel answered "cancelled"; zero for never
	cancelAny bool                // a cancel that may have had effect was tried
	payload   []byte
	sends     []send
	handled   int
	explained []reason
	// stored again after it was delivered: allowed where its submission came
	// more than once, as far as inbound can know.
	again []string
	// submissions counts calls of Schedule; gone is set once a row was delivered
	// and deleted. Deduplication ends there.
	submissions int
	touched     time.Time // the last answer to a call about it
	gone        bool
	restored    bool     // stored again after that: a cancel speaks for the new row alone
	events      []string // what happened to it, for the report of a breach
}

// reason explains one duplicate, from a time on.
type reason struct {
	at  time.Time
	why string
}

func (j *job) explain(why string) { j.explained = append(j.explained, reason{time.Now(), why}) }

// unexplained is how many sends there are that none of the reasons before them
// explains. Each explains one.
func (j *job) unexplained() int {
	worst := 0
	for i, s := range j.sends {
		before := 0
		for _, r := range j.explained {
			if !r.at.After(s.at) {
				before++
			}
		}
		worst = max(worst, i-before)
	}
	return worst
}

// send is one message put on a service's queue.
type send struct {
	at  time.Time
	due int64
}

// audit keeps a ledger of its own, by what went over the interfaces.
type audit struct {
	w  *world
	mu sync.Mutex
	// sentBy names the processes that tried to send a trigger whose row is still
	// there: what a crash or a freeze of theirs explains.
	sentBy map[string]map[*process]time.Time
	jobs   map[string]*job
	notes  []string
}

func newAudit(w *world) *audit {
	return &audit{w: w, jobs: make(map[string]*job), sentBy: make(map[string]map[*process]time.Time)}
}

func (a *audit) job(id string) *job {
	j := a.jobs[id]
	if j == nil {
		j = &job{id: id, dues: make(map[int64]bool), movedFrom: make(map[int64]time.Time)}
		a.jobs[id] = j
	}
	return j
}

// event takes note of something that happened to a trigger.
func (a *audit) event(id, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log(id, what)
}

func (a *audit) log(id, what string) {
	j := a.job(id)
	if len(j.events) < 80 {
		j.events = append(j.events, fmt.Sprintf("%.3fs %s", time.Since(a.w.start).Seconds(), what))
	}
}

func (a *audit) with(id string, f func(*job)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.job(id))
}

// idsOf returns the trigger ids a message carries, delivered or inbound.
func idsOf(body string, attributes map[string]string) []string {
	if id := attributes[trigger.AttrID]; id != "" {
		return []string{id}
	}
	var m struct{ ID string }
	if json.Unmarshal([]byte(body), &m) == nil && m.ID != "" {
		return []string{m.ID}
	}
	return nil
}

func (a *audit) explain(ids []string, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		a.job(id).explain(why)
	}
}

// comesAgain notes that inbound may take a submission for a new one.
func (a *audit) comesAgain(ids []string, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		j := a.job(id)
		j.again = append(j.again, why)
	}
}

// sending takes note of a process's attempt to send.
func (a *audit) sending(p *process, msgs []queue.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range msgs {
		for _, id := range idsOf(msgs[i].Body, msgs[i].Attributes) {
			if a.sentBy[id] == nil {
				a.sentBy[id] = make(map[*process]time.Time)
			}
			a.sentBy[id][p] = time.Now()
			a.log(id, "about to be sent by "+p.name)
			if p.suspect() {
				a.job(id).explain(p.name + " was frozen about the time of the send")
			}
		}
	}
}

// disturbed explains duplicates of what a process had sent and not completed
// when it was killed or frozen.
func (a *audit) disturbed(p *process, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, by := range a.sentBy {
		if _, ok := by[p]; ok {
			a.job(id).explain(p.name + " " + why + " after it sent")
		}
	}
}

// changed sees every change of a row.
func (a *audit) changed(before, after *store.Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case after == nil:
		a.log(before.ID.String(), "row deleted in "+string(before.State))
		delete(a.sentBy, before.ID.String())
		a.job(before.ID.String()).gone = true
	case before == nil:
		j := a.job(after.ID.String())
		stored := !after.State.Tombstone()
		j.restored = j.restored || j.gone && stored
		if j.gone && stored && (j.submissions > 1 || len(j.again) > 0) {
			j.explain(fmt.Sprintf("stored again after it was delivered: %d submissions, %v", j.submissions, j.again))
		}
		a.log(after.ID.String(), "row put in "+string(after.State)+" at "+after.Key().P())
	default:
		a.log(after.ID.String(), "row from "+string(before.State)+" to "+string(after.State))
	}
}

// sent sees every message put on a queue.
func (a *audit) sent(url string, m queue.Message) {
	if !strings.Contains(url, "/svc-") {
		return
	}
	t, err := trigger.ReadDelivered(m.Body, m.Attributes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.notes = append(a.notes, "unreadable message on "+url+": "+err.Error())
		return
	}
	j := a.job(t.ID.String())
	a.log(j.id, "on its queue")
	j.sends = append(j.sends, send{at: time.Now(), due: t.Due.UnixMilli()})
	if j.offered && string(t.Payload) != string(j.payload) {
		a.notes = append(a.notes, j.id+" came with another payload than was submitted")
	}
	if !strings.HasSuffix(strings.TrimSuffix(url, ".fifo"), "/svc-"+j.service) && j.service != "" {
		a.notes = append(a.notes, fmt.Sprintf("%s of %s was sent to %s", j.id, j.service, url))
	}
}

// lostWithQueue excuses what lay on a queue when an operator deleted it.
func (a *audit) lostWithQueue(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.jobs {
		if j.service == service && len(j.sends) > 0 {
			j.handled++
		}
	}
}

// earlyBy is how early a message may be by the true clock: a process's clock is
// corrected from 2 s of skew, measured to about a second.
const earlyBy = 3100 * time.Millisecond

// verdict checks every promise and describes each breach.
func (a *audit) verdict() (breaches []string, r Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	breaches = append(breaches, a.notes...)
	bad := func(j *job, format string, args ...any) {
		breaches = append(breaches, fmt.Sprintf("%s (%s): %s; sends %v; explained %v\n    %s",
			j.id, j.service, fmt.Sprintf(format, args...), a.times(j), j.explained, strings.Join(j.events, "\n    ")))
	}
	for _, j := range a.jobs {
		if !j.offered {
			bad(j, "a message of a trigger nobody submitted")
			continue
		}
		r.Triggers++
		if j.accepted && j.cancelled.IsZero() && !j.cancelAny && len(j.sends) == 0 {
			bad(j, "lost")
		}
		if len(j.sends) > 0 && j.handled == 0 {
			bad(j, "on its queue and never handled by the worker")
		}
		for _, s := range j.sends {
			early := time.UnixMilli(s.due).Sub(s.at)
			allowed := time.Duration(0)
			if a.w.clocksOff {
				allowed = earlyBy
			}
			if early > allowed {
				bad(j, "sent %s early", early)
			}
			if !j.dues[s.due] {
				bad(j, "sent for %d, which is none of its due times %v", s.due, j.dues)
			}
			if at, ok := j.movedFrom[s.due]; ok && (s.at.After(at) || !j.restored) {
				bad(j, "sent for %d after it was moved away from there", s.due)
			}
			if !j.cancelled.IsZero() && (s.at.After(j.cancelled) || !j.restored) {
				bad(j, "cancelled at %s, and sent", j.cancelled.Sub(a.w.start))
			}
		}
		if n := len(j.sends); n > 0 {
			r.Delivered++
			r.Duplicates += n - 1
			if u := j.unexplained(); u > 0 {
				bad(j, "%d duplicates that nothing explains", u)
			}
			late, most := a.late(j)
			if most > 0 {
				r.Timed++
			}
			if late > most {
				bad(j, "%s late at a time without faults; %s is the most", late, most)
			}
		}
		if !j.cancelled.IsZero() {
			r.Cancelled++
		}
	}
	sort.Strings(breaches)
	return breaches, r
}

// late is how late a trigger came and how late it may: without bound unless no
// fault, nor what one leaves behind, touches the time from before it was due
// until it was sent.
func (a *audit) late(j *job) (late, most time.Duration) {
	s := j.sends[0]
	due := time.UnixMilli(s.due)
	ready := due
	if j.touched.After(ready) {
		ready = j.touched
	}
	late = s.at.Sub(ready)
	if !j.accepted || j.touched.After(s.at) || ready.Sub(a.w.start) < a.w.calm() {
		return 0, 0
	}
	most = lateStored
	if due.Sub(j.touched) < lookBack {
		most = lateFresh
	}
	if a.w.clocksOff {
		most += clock.CorrectAbove + time.Second // what goes uncorrected, measured to about that
	}
	return late, most
}

const (
	// lookBack is longer than schedulers look ahead.
	lookBack = 8 * time.Second
	// lateStored is the most that a trigger stored well ahead is late without
	// faults; lateFresh the same for one stored when it was all but due.
	lateStored = 250 * time.Millisecond
	lateFresh  = 4 * time.Second
)

func (a *audit) times(j *job) []string {
	var out []string
	for _, s := range j.sends {
		out = append(out, fmt.Sprintf("%.3fs(due %.3fs)", s.at.Sub(a.w.start).Seconds(), time.UnixMilli(s.due).Sub(a.w.start).Seconds()))
	}
	return out
}

// took notes the outcome of a cancel.
func (a *audit) took(id string, res client.CancelResult, err error) {
	a.event(id, fmt.Sprintf("cancel: %s %v", res.Outcome, err))
	a.with(id, func(j *job) {
		switch {
		case err == nil && res.Outcome == client.OutcomeCancelled:
			if j.cancelled.IsZero() {
				j.cancelled = time.Now()
			}
		case err == nil && res.Outcome == client.OutcomeBeingDelivered:
		default:
			j.cancelAny = true
		}
	})
}
