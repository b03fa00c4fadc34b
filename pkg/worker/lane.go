package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	linger       = 10 * time.Millisecond // of batched deletes and releases
	pollBackoff  = 200 * time.Millisecond
	pollBackoffs = 10 * time.Second // at most: a recreated queue is found that soon
	logEvery     = time.Minute      // of an error that goes on
)

// lane is one queue being consumed. Worker.mu guards what is not set at the start.
type lane struct {
	lane  trigger.Lane
	url   string
	fifo  bool
	slots int // handlers it may run

	deletes, releases, burials *batcher

	buffer   []*entry
	running  int
	reserved int  // room of receives under way
	full     bool // the last receive brought all it asked for
	// active are FIFO groups with a message running or being buried; failing are
	// groups whose last message was not finished, until when that matters.
	active  map[string]*entry
	failing map[string]time.Time

	room     chan struct{} // closed and replaced when room may have appeared
	sleepers int           // pollers waiting on room
	logged   map[string]time.Time
}

func newLane(w *Worker, name trigger.Lane, url string, slots int) *lane {
	l := &lane{
		lane: name, url: url, slots: slots,
		fifo:    strings.HasSuffix(url, ".fifo"),
		active:  make(map[string]*entry),
		failing: make(map[string]time.Time),
		room:    make(chan struct{}),
		logged:  make(map[string]time.Time),
	}
	l.deletes = newBatcher(func(ctx context.Context, b []*entry) { w.flushDeletes(ctx, l, b) })
	l.releases = newBatcher(func(ctx context.Context, b []*entry) { w.flushReleases(ctx, l, b) })
	l.burials = newBatcher(func(ctx context.Context, b []*entry) { w.flushBurials(ctx, l, b) })
	return l
}

// signal wakes pollers that wait for room. mu is held.
func (l *lane) signal() {
	if l.sleepers > 0 {
		close(l.room)
		l.room = make(chan struct{})
		l.sleepers = 0
	}
}

// quiet reports whether an event of this kind was logged within a minute.
func (l *lane) quiet(kind string, now time.Time) bool {
	if last, ok := l.logged[kind]; ok && now.Sub(last) < logEvery {
		return true
	}
	l.logged[kind] = now
	return false
}

// want is how many messages to ask for now; 0: wait. A receive waits for room
// for half a buffer, up to a full batch, unless slots would idle: asking for
// single messages would multiply requests. A second receive runs beside the
// first only while they come back full: idle, one long poll is enough, and a stop
// that finds it waiting costs a message at most one receive. mu is held.
func (w *Worker) want(l *lane) int {
	if l.reserved > 0 && !l.full {
		return 0
	}
	held := l.running + len(l.buffer) + l.reserved
	room := l.slots + w.opts.Prefetch - held
	// Finished messages whose deletes do not get through must not pile up.
	if len(w.entries) >= 4*(w.opts.Concurrency+w.opts.Prefetch)*len(w.lanes)+10*queue.MaxBatch {
		return 0
	}
	if room <= 0 || room < min(w.opts.Prefetch/2, queue.MaxBatch) && held >= l.slots {
		return 0
	}
	if l.fifo && len(l.failing) > 0 {
		now := time.Now()
		for g, until := range l.failing {
			if now.After(until) {
				delete(l.failing, g)
			}
		}
		if len(l.failing) > 0 {
			return 1
		}
	}
	return min(room, queue.MaxBatch)
}

// poll receives until a stop begins.
func (w *Worker) poll(ctx context.Context, l *lane) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pollers--
		w.checkDrained()
	}()
	failures := 0
	for {
		n := w.takeRoom(l)
		if n == 0 {
			return
		}
		began := time.Now()
		got, err := w.pollOnce(ctx, l, n)
		switch {
		case err == nil && (got > 0 || time.Since(began) >= pollBackoff):
			failures = 0
			continue
		case err != nil || failures < 3:
			// An engine that answers "none" at once must not be polled hot.
			failures++
		}
		t := time.NewTimer(jittered(pollBackoff, pollBackoffs, failures))
		select {
		case <-t.C:
		case <-w.stopping:
		}
		t.Stop()
	}
}

// takeRoom waits for room and reserves it; 0 when a stop has begun.
func (w *Worker) takeRoom(l *lane) int {
	for {
		w.mu.Lock()
		if n := w.want(l); n > 0 && !w.stopBegun() {
			l.reserved += n
			w.mu.Unlock()
			return n
		}
		room := l.room
		l.sleepers++
		w.mu.Unlock()
		select {
		case <-room:
		case <-w.stopping:
			return 0
		}
	}
}

func (w *Worker) stopBegun() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// pollOnce makes one receive of up to n messages, for which room is reserved,
// and takes in what comes.
func (w *Worker) pollOnce(ctx context.Context, l *lane, n int) (int, error) {
	rctx, cancel := context.WithTimeout(ctx, w.opts.Wait+callTimeout)
	msgs, err := w.opts.Receiver.Receive(rctx, l.url, queue.ReceiveOptions{Max: n, Wait: w.opts.Wait, Visibility: w.opts.Visibility})
	cancel()
	now := time.Now()
	w.metrics.received.WithLabelValues(l.lane.String()).Add(float64(len(msgs)))

	w.mu.Lock()
	defer w.mu.Unlock()
	l.reserved -= n
	l.full = len(msgs) == n
	for i := range msgs {
		e := w.newEntry(l, &msgs[i], now)
		if w.closing || w.stopBegun() {
			w.metrics.released.WithLabelValues(releaseStop).Inc()
			w.release(e, 0)
			continue
		}
		l.buffer = append(l.buffer, e)
	}
	w.dispatch()
	l.signal()
	if err == nil || ctx.Err() != nil {
		return len(msgs), nil
	}
	w.metrics.receiveErrors.WithLabelValues(l.lane.String()).Inc()
	switch {
	case errors.Is(err, queue.ErrMissing):
		if !l.quiet("missing", now) {
			w.log.Error("queue does not exist; polling goes on until it does", "queue", l.url, "error", err)
		}
	case !l.quiet("receive", now):
		w.log.Error("receive failed; polling goes on", "queue", l.url, "error", err)
	}
	return len(msgs), err
}

// dispatch starts handlers while there are slots, urgent messages first. mu is held.
func (w *Worker) dispatch() {
	for _, l := range w.lanes {
		for !w.closing && w.running < w.opts.Concurrency && l.running < l.slots {
			e := w.next(l)
			if e == nil {
				break
			}
			w.start(e)
		}
	}
}

// next takes the first message that may start: on FIFO, none whose group is
// active. Messages that are visible again by now (the process was frozen, or extensions failed) are
// dropped: others have them. mu is held.
func (w *Worker) next(l *lane) *entry {
	now := time.Now()
	for i := 0; i < len(l.buffer); {
		e := l.buffer[i]
		switch {
		case !now.Before(e.until):
			l.buffer = slices.Delete(l.buffer, i, i+1)
			w.lose(e)
			i = 0 // the group's other messages went too
		case l.fifo && l.active[e.msg.Group] != nil:
			i++
		default:
			l.buffer = slices.Delete(l.buffer, i, i+1)
			return e
		}
	}
	return nil
}

// lose forgets a message that others may have. mu is held.
func (w *Worker) lose(e *entry) {
	w.metrics.lost.Inc()
	w.log.Warn("message lost before it was handled", w.about(e)...)
	w.forget(e)
	w.failGroup(e, e.until)
}

// failGroup gives back the buffered messages behind one of a FIFO group that
// was not finished, so that order is kept; until is when it can come again. mu is held.
func (w *Worker) failGroup(e *entry, until time.Time) {
	l := e.lane
	if !l.fifo {
		return
	}
	l.failing[e.msg.Group] = until.Add(time.Minute)
	l.buffer = slices.DeleteFunc(l.buffer, func(o *entry) bool {
		if o.msg.Group != e.msg.Group {
			return false
		}
		w.metrics.released.WithLabelValues(releaseGroup).Inc()
		w.release(o, 0)
		return true
	})
}
