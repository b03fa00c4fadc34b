package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	settleBackoff  = 200 * time.Millisecond
	settleBackoffs = 5 * time.Second
	stopBackoffs   = 500 * time.Millisecond // while stopping
	releaseTries   = 4                      // then its visibility runs out by itself
	buryTries      = 5                      // then it is left to the redrive policy
	maxReason      = 300                    // bytes
	maxAttributes  = 10
)

// release makes a message visible after d, rounded up to whole seconds. mu is held.
func (w *Worker) release(e *entry, d time.Duration) {
	e.state = releasing
	e.timeout = min((max(d, 0) + time.Second - 1).Truncate(time.Second), e.left(time.Now()))
	if e.extending {
		e.parked = true
		return
	}
	e.lane.releases.add(e)
}

// again puts a message back into its batcher after a pause. mu is held.
func (w *Worker) again(e *entry, b *batcher) {
	limit := settleBackoffs
	if w.closing {
		limit = stopBackoffs
	}
	e.tries++
	stage := e.state
	time.AfterFunc(jittered(settleBackoff, limit, e.tries), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, held := w.entries[e]; held && e.state == stage {
			b.add(e)
		}
	})
}

func errAt(errs []error, i int) error {
	if i < len(errs) {
		return errs[i]
	}
	return errors.New("no answer for this message")
}

// flushDeletes deletes finished messages. Those that fail are tried again
// until they succeed: the upkeep hides them meanwhile, and ends it at MaxAge.
func (w *Worker) flushDeletes(ctx context.Context, l *lane, batch []*entry) {
	receipts := make([]string, len(batch))
	for i, e := range batch {
		receipts[i] = e.msg.Receipt
	}
	errs := w.opts.Receiver.Delete(ctx, l.url, receipts)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range batch {
		switch err := errAt(errs, i); {
		case err == nil:
			w.forget(e)
		case errors.Is(err, queue.ErrReceipt):
			// Deleted by an earlier try whose answer was lost, or given to others.
			if e.tries == 0 && !e.lost {
				w.metrics.lost.Inc()
				w.log.Warn("finished job could not be deleted: its receipt is no longer valid; it may run again", w.about(e)...)
			}
			w.forget(e)
		default:
			w.metrics.deleteErrors.Inc()
			if !l.quiet("delete", time.Now()) {
				w.log.Error("delete of a finished job failed; it is tried again", append(w.about(e), "error", err)...)
			}
			w.again(e, l.deletes)
		}
	}
}

// flushReleases makes messages visible.
func (w *Worker) flushReleases(ctx context.Context, l *lane, batch []*entry) {
	entries := make([]queue.Visibility, len(batch))
	for i, e := range batch {
		entries[i] = queue.Visibility{Receipt: e.msg.Receipt, Timeout: e.timeout}
	}
	errs := w.opts.Receiver.ChangeVisibility(ctx, l.url, entries)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range batch {
		err := errAt(errs, i)
		if err == nil || errors.Is(err, queue.ErrReceipt) {
			w.forget(e)
			continue
		}
		if e.tries+1 >= releaseTries {
			w.log.Warn("message not given back; its visibility timeout will", append(w.about(e), "error", err)...)
			w.forget(e)
			continue
		}
		w.again(e, l.releases)
	}
}

// flushBurials sends messages to the dead-letter queue, then deletes them.
func (w *Worker) flushBurials(ctx context.Context, l *lane, batch []*entry) {
	url := w.opts.DeadLetterURL
	fifo := strings.HasSuffix(url, ".fifo")
	msgs := make([]queue.Message, len(batch))
	for i, e := range batch {
		msgs[i] = deadLetter(&e.msg, e.reason, fifo)
	}
	errs := w.opts.Sender.SendBatch(ctx, url, msgs)
	retry := make([]time.Duration, len(batch))
	for i, e := range batch {
		retry[i] = w.backoff(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range batch {
		switch err := errAt(errs, i); {
		case e.state != burying: // given up at MaxAge
		case err == nil:
			w.groupDone(e)
			e.state, e.tries = deleting, 0
			l.deletes.add(e)
		case errors.Is(err, queue.ErrRejected) || e.tries+1 >= buryTries:
			w.log.Error("dead-letter queue does not take a message; it is retried until the redrive policy takes it",
				append(w.about(e), "reason", e.reason, "error", err, "in", retry[i])...)
			e.tries = 0
			w.groupFailed(e, time.Now().Add(retry[i]))
			w.release(e, retry[i])
		default:
			w.again(e, l.burials)
		}
	}
	w.dispatch() // FIFO groups may go on
}

// deadLetter returns the message as it goes to the dead-letter queue: as it
// came, with the reason. On FIFO it is deduplicated by the queue's message id,
// the same over all receives and another after a redrive.
func deadLetter(m *queue.Received, reason string, fifo bool) queue.Message {
	out := queue.Message{Body: m.Body, Attributes: make(map[string]string, len(m.Attributes)+1), Group: m.Group}
	maps.Copy(out.Attributes, m.Attributes)
	if fifo {
		out.Dedup = m.ID
		if out.Group == "" {
			out.Group = m.ID
		}
	}
	_, had := out.Attributes[AttrReason]
	if len(out.Attributes) >= maxAttributes && !had {
		delete(out.Attributes, trigger.AttrTraceparent)
	}
	if len(out.Attributes) < maxAttributes || had {
		out.Attributes[AttrReason] = reasonText(reason)
		if out.Size() > queue.MaxMessageBytes {
			delete(out.Attributes, AttrReason)
		}
	}
	return out
}

// reasonText makes a reason fit to be an attribute.
func reasonText(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0xFFFE && r <= 0xFFFF {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if strings.TrimSpace(s) == "" {
		return "not given"
	}
	return s
}
