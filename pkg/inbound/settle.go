package inbound

import (
	"context"
	"errors"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// later tries a step again after a pause, or gives the message back if there is
// no time left, or the process stops.
func (l *lane) later(it *item, step func(*item)) {
	wait := jitter(min(pauseFirst<<min(it.tries, 8), retryMost))
	it.tries++
	if l.isStopping() {
		l.release(it, 0)
		return
	}
	if l.in.o.Clock.Local().Add(wait).After(it.until) {
		l.release(it, backoff(it.msg.ReceiveCount))
		return
	}
	l.waits.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
			step(it)
		case <-l.stopping:
			l.release(it, 0)
		}
	})
}

func (l *lane) isStopping() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// backoff is how long a message that could not be dealt with stays invisible:
// longer each time, so that an outage of hours costs few receives.
func backoff(receives int) time.Duration {
	return min(backFirst<<min(max(receives-1, 0), 8), backMost).Truncate(time.Second)
}

// release gives a message back to the buffer.
func (l *lane) release(it *item, invisible time.Duration) {
	it.back = invisible
	l.in.busy.leave(it)
	l.backs.Add(it)
}

// giveBack makes messages visible again. A failure costs no more than the rest
// of their visibility timeout.
func (l *lane) giveBack(items []*item) {
	entries := make([]queue.Visibility, len(items))
	for i, it := range items {
		entries[i] = queue.Visibility{Receipt: it.msg.Receipt, Timeout: it.back}
	}
	// Not working: this is what is left to do when that has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.working), backTimeout)
	defer cancel()
	failed := 0
	for _, err := range l.in.o.Queue.ChangeVisibility(ctx, l.url, entries) {
		if err != nil {
			failed++
		}
	}
	if failed > 0 {
		l.in.o.Log.Warn("messages stay invisible until their timeout", "lane", l.id.String(), "count", failed)
	}
	l.in.metrics.releasedN(l.id, len(items))
	l.end(items)
}

// delete acknowledges messages that were dealt with. What cannot be deleted
// comes again and is recognised.
func (l *lane) delete(items []*item) {
	receipts := make([]string, len(items))
	for i, it := range items {
		receipts[i] = it.msg.Receipt
	}
	ctx, cancel := context.WithTimeout(l.working, callTimeout)
	defer cancel()
	errs := l.in.o.Queue.Delete(ctx, l.url, receipts)
	var done []*item
	for i, it := range items {
		it.tries++
		last := errors.Is(errs[i], queue.ErrReceipt) || it.tries >= ackTries || l.working.Err() != nil
		if errs[i] != nil && !last {
			wait := jitter(pauseFirst << min(it.tries-1, 6))
			l.waits.Go(func() {
				pause(l.working, wait)
				l.acks.Add(it)
			})
			continue
		}
		if errs[i] != nil {
			l.in.metrics.deleteFailed(l.id)
			l.in.o.Log.Warn("message cannot be deleted and will come again", "lane", l.id.String(), "error", errs[i])
		}
		done = append(done, it)
	}
	l.end(done)
}

// ackTries bounds the tries of a delete: a few seconds, while room is held.
const ackTries = 6

// ack lets a message be deleted.
func (l *lane) ack(it *item) {
	it.tries = 0
	l.in.busy.leave(it)
	l.acks.Add(it)
}

// end gives back the room that messages took.
func (l *lane) end(items []*item) {
	if len(items) == 0 {
		return
	}
	bytes := 0
	for _, it := range items {
		bytes += len(it.msg.Body)
	}
	l.hold.release(len(items), bytes)
}
