package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// keep extends the visibility of everything held until quit is closed. It looks
// six times per visibility timeout and extends what has less than two thirds of
// it left; while extensions fail, it looks five times as often.
func (w *Worker) keep(ctx context.Context, l *lane, quit <-chan struct{}) {
	usual := w.opts.Visibility / 6
	tick := time.NewTimer(usual)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-quit:
			return
		}
		if _, failed := w.keepOnce(ctx, l); failed > 0 {
			tick.Reset(usual / 5)
		} else {
			tick.Reset(usual)
		}
	}
}

// extension is one extension to make.
type extension struct {
	e       *entry
	timeout time.Duration
}

// keepOnce extends what is due, and gives up what is too old. It returns how
// many extensions it tried and how many of them failed.
func (w *Worker) keepOnce(ctx context.Context, l *lane) (tried, failed int) {
	due := w.dueForExtension(l, time.Now())
	var (
		calls    sync.WaitGroup
		failures atomic.Int64
		slots    = make(chan struct{}, parallelFlushes)
	)
	for batch := range slices.Chunk(due, queue.MaxBatch) {
		slots <- struct{}{} // freed in callTimeout at the latest
		calls.Go(func() {
			defer func() { <-slots }()
			failures.Add(int64(w.extend(ctx, l, batch)))
		})
	}
	calls.Wait()
	return len(due), int(failures.Load())
}

// extend makes one call, and returns how many of its extensions failed.
func (w *Worker) extend(ctx context.Context, l *lane, batch []extension) (failed int) {
	entries := make([]queue.Visibility, len(batch))
	for i, x := range batch {
		entries[i] = queue.Visibility{Receipt: x.e.msg.Receipt, Timeout: x.timeout}
	}
	now := time.Now()
	cctx, cancel := context.WithTimeout(ctx, min(w.opts.Visibility/3, callTimeout))
	errs := w.opts.Receiver.ChangeVisibility(cctx, l.url, entries)
	cancel()

	w.mu.Lock()
	defer w.mu.Unlock()
	for i, x := range batch {
		e := x.e
		e.extending = false
		err := errAt(errs, i)
		switch {
		case err == nil:
			e.until = now.Add(x.timeout)
		case e.state == deleting || e.state == releasing:
			// Its own call will tell; after a delete an extension must fail.
		case errors.Is(err, queue.ErrReceipt):
			failed++
			w.lostReceipt(e)
		default:
			failed++
			if !l.quiet("extend", now) {
				w.log.Error("visibility not extended; it is tried again", append(w.about(e), "error", err)...)
			}
		}
		if e.parked {
			e.parked = false
			l.releases.add(e)
		}
	}
	w.metrics.extensionFails.Add(float64(failed))
	w.dispatch() // what was lost made way for others
	l.signal()
	return failed
}

func (w *Worker) dueForExtension(l *lane, now time.Time) []extension {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []extension
	for e := range w.entries {
		if e.lane != l || e.lost || e.state == releasing {
			continue
		}
		if now.Sub(e.received) >= w.opts.MaxAge && !e.tooOld && w.tooOld(e, now) {
			continue
		}
		timeout := min(w.opts.Visibility, e.left(now))
		if timeout <= 0 || e.until.Sub(now) > w.opts.Visibility*2/3 {
			continue
		}
		e.extending = true
		due = append(due, extension{e, timeout})
	}
	return due
}

// tooOld says that a message cannot be held much longer, and reports whether it
// is held no more. A running handler is told by its context, and its message
// still extended up to the queue's own limit so that it can wind down. mu is held.
func (w *Worker) tooOld(e *entry, now time.Time) bool {
	e.tooOld = true
	w.metrics.tooOld.Inc()
	w.log.Error("message held until the queue's ceiling is near", append(w.about(e),
		"state", e.state.String(), "held", now.Sub(e.received), "ceiling", queue.MaxVisibility)...)
	switch e.state {
	case running:
		e.cancel(ErrTooOld)
		return false
	case buffered:
		e.lane.buffer = slices.DeleteFunc(e.lane.buffer, func(o *entry) bool { return o == e })
		w.metrics.released.WithLabelValues(releaseTooOld).Inc()
		w.release(e, 0)
		w.failGroup(e, now)
	case burying:
		w.groupFailed(e, now)
		w.release(e, 0)
	default:
		w.forget(e)
	}
	return true
}

// lostReceipt handles a message that others may have by now. mu is held.
func (w *Worker) lostReceipt(e *entry) {
	if e.lost {
		return
	}
	e.lost = true
	switch e.state {
	case running:
		w.metrics.lost.Inc()
		w.log.Warn("message lost while its handler runs; the handler is cancelled", w.about(e)...)
		e.cancel(ErrLost)
	case buffered:
		e.lane.buffer = slices.DeleteFunc(e.lane.buffer, func(o *entry) bool { return o == e })
		w.lose(e)
	default: // burying: the send goes on, and its delete will tell
	}
}
