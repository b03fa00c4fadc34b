package memqueue

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Receive implements queue.Receiver. A long poll is woken by a send, by the end
// of a delay or of a visibility timeout, and by the unlocking of a FIFO group.
// A cancelled wait has taken nothing.
func (e *Engine) Receive(ctx context.Context, url string, opts queue.ReceiveOptions) ([]queue.Received, error) {
	if opts.Max == 0 {
		opts.Max = queue.MaxBatch
	}
	if opts.Max < 0 || opts.Max > queue.MaxBatch || opts.Wait < 0 || opts.Wait > queue.MaxWait ||
		opts.Visibility < 0 || opts.Visibility > queue.MaxVisibility {
		return nil, fmt.Errorf("memqueue: receive: options out of range: %+v", opts)
	}
	opts.Wait, opts.Visibility = seconds(opts.Wait), seconds(opts.Visibility)
	f := e.fault(Entry{Op: OpReceive, URL: url})
	if err := f.before(ctx); err != nil {
		return nil, fmt.Errorf("memqueue: receive: %w", err)
	}
	q, taken, err := e.await(ctx, url, opts)
	if err != nil {
		return nil, fmt.Errorf("memqueue: receive: %w", err)
	}
	out := make([]queue.Received, len(taken))
	for i, m := range taken {
		out[i] = m.Received
		if e.opts.Faults == nil {
			continue
		}
		if df := e.fault(Entry{Op: OpDeliver, URL: url, Deliver: &out[i]}); df.Duplicate {
			e.mu.Lock()
			q.duplicate(m.msg, df.DuplicateAfter)
			e.mu.Unlock()
		}
	}
	if err := f.after(); err != nil {
		return nil, fmt.Errorf("memqueue: receive: %w", err)
	}
	if f.ReplyDelay > 0 && pause(ctx, f.ReplyDelay) != nil && len(out) == 0 {
		return nil, fmt.Errorf("memqueue: receive: %w", ctx.Err())
	}
	return out, nil
}

// seconds rounds up to whole seconds: SQS knows nothing finer.
func seconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

type taken struct {
	queue.Received
	msg *message
}

// await takes messages, waiting for them as long as opts allow.
func (e *Engine) await(ctx context.Context, url string, opts queue.ReceiveOptions) (*memQueue, []taken, error) {
	deadline := time.Now().Add(opts.Wait)
	w := &waiter{wake: make(chan struct{}, 1)}
	for {
		e.mu.Lock()
		q, err := e.lookup(url)
		if err != nil {
			e.mu.Unlock()
			return nil, nil, err
		}
		now := e.opts.Now()
		q.promote(now)
		full := q.count[inFlight] >= e.opts.MaxInFlight
		var got []taken
		if !full {
			got = q.take(now, opts)
		}
		left := time.Until(deadline)
		if len(got) > 0 || left <= 0 {
			q.leave(w)
			e.mu.Unlock()
			if full && opts.Wait == 0 {
				return nil, nil, fmt.Errorf("%w: OverLimit: %d messages in flight", queue.ErrThrottled, e.opts.MaxInFlight)
			}
			return q, got, nil
		}
		q.enter(w)
		if len(q.timed) > 0 {
			// At least a millisecond, should Now lag behind the timers.
			left = min(left, max(q.timed[0].until.Sub(now), time.Millisecond))
		}
		e.mu.Unlock()

		t := time.NewTimer(left)
		select {
		case <-w.wake:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		if err := ctx.Err(); err != nil {
			e.mu.Lock()
			q.leave(w)
			e.mu.Unlock()
			return nil, nil, err
		}
	}
}

// take puts up to opts.Max visible messages in flight: one per group in turn on
// a standard queue, as many as there are of a group on a FIFO queue.
func (q *memQueue) take(now time.Time, opts queue.ReceiveOptions) []taken {
	vis := opts.Visibility
	if vis == 0 {
		vis = q.spec.Visibility
	}
	var got []taken
	for len(got) < opts.Max && q.ring.Len() > 0 {
		g := q.ring.Front().Value.(*group)
		limit := len(got) + 1
		if q.spec.FIFO {
			limit = opts.Max
		}
		var batch []*message
		for len(got)+len(batch) < limit && len(g.ready) > 0 {
			m := g.ready[0]
			if q.expired(m, now) || q.redrive(m, now) {
				continue
			}
			q.setStatus(m, inFlight, now.Add(vis))
			batch = append(batch, m)
		}
		if g.elem != nil {
			q.ring.MoveToBack(g.elem)
		}
		for _, m := range batch {
			m.receives++
			m.received = now
			got = append(got, taken{msg: m, Received: queue.Received{
				ID: m.id, Receipt: q.receipt(m), Body: m.body, Attributes: maps.Clone(m.attrs), Group: m.group,
				SenderID: m.sender, SentAt: m.sentAt, ReceiveCount: m.receives,
			}})
		}
	}
	return got
}

// expired drops a message past its retention.
func (q *memQueue) expired(m *message, now time.Time) bool {
	if now.Sub(m.sentAt) < q.e.opts.Retention {
		return false
	}
	q.setStatus(m, gone, time.Time{})
	return true
}

// redrive moves a message that was received too often to the dead-letter
// queue. It keeps its id and count and, on standard queues, its SentAt. Where
// there is no such queue it stays.
func (q *memQueue) redrive(m *message, now time.Time) bool {
	if q.spec.MaxReceives <= 0 || m.receives < q.spec.MaxReceives {
		return false
	}
	dlq := q.e.queues[q.spec.DeadLetterURL]
	if dlq == nil || dlq == q {
		return false
	}
	q.setStatus(m, gone, time.Time{})
	moved := *m
	q.e.seq++
	moved.seq = q.e.seq
	if dlq.spec.FIFO {
		moved.sentAt = now.UTC().Truncate(time.Millisecond)
	}
	dlq.add(&moved, visible, time.Time{})
	return true
}

// Delete implements queue.Receiver, as SQS does it: deleting twice succeeds; a
// receipt of an earlier receive succeeds on a standard queue and deletes
// nothing once the message was received again.
func (e *Engine) Delete(ctx context.Context, url string, receipts []string) []error {
	return e.each(ctx, OpDelete, url, len(receipts), func(i int) string { return receipts[i] },
		func(q *memQueue, i int, now time.Time) error {
			m, current, err := q.find(receipts[i])
			switch {
			case err != nil:
				return err
			case m == nil:
				return nil
			case q.spec.FIFO && (!current || m.status != inFlight):
				return fmt.Errorf("memqueue: delete: %w", queue.ErrReceipt)
			case current:
				q.setStatus(m, gone, time.Time{})
			}
			return nil
		})
}

// ChangeVisibility implements queue.Receiver. A message that is not in flight
// under the receipt gives ErrReceipt; a timeout that ends more than
// MaxVisibility after the receive is refused.
func (e *Engine) ChangeVisibility(ctx context.Context, url string, entries []queue.Visibility) []error {
	return e.each(ctx, OpVisibility, url, len(entries), func(i int) string { return entries[i].Receipt },
		func(q *memQueue, i int, now time.Time) error {
			v := entries[i]
			m, current, err := q.find(v.Receipt)
			switch {
			case err != nil:
				return err
			case m == nil || !current || m.status != inFlight:
				return fmt.Errorf("memqueue: change visibility: %w", queue.ErrReceipt)
			case v.Timeout < 0 || now.Add(seconds(v.Timeout)).Sub(m.received) > queue.MaxVisibility:
				return fmt.Errorf("memqueue: change visibility: %s from now is beyond %s from the receive", v.Timeout, queue.MaxVisibility)
			case v.Timeout == 0:
				q.setStatus(m, visible, time.Time{})
			default:
				q.setStatus(m, inFlight, now.Add(seconds(v.Timeout)))
			}
			return nil
		})
}

// each applies an operation per receipt under the lock, with its faults.
func (e *Engine) each(ctx context.Context, op Op, url string, n int, receipt func(int) string,
	apply func(q *memQueue, i int, now time.Time) error,
) []error {
	fs, reply, err := e.faultsOf(ctx, n, func(i int) Entry { return Entry{Op: op, URL: url, Receipt: receipt(i)} })
	if err != nil {
		return all(n, fmt.Errorf("memqueue: %s: %w", op, err))
	}
	e.mu.Lock()
	q, err := e.lookup(url)
	if err != nil {
		e.mu.Unlock()
		return all(n, err)
	}
	now := e.opts.Now()
	q.promote(now)
	errs := make([]error, n)
	for i := range errs {
		f := at(fs, i)
		if f.Err != nil && !f.LoseReply {
			errs[i] = f.Err
			continue
		}
		if errs[i] = apply(q, i, now); errs[i] == nil {
			errs[i] = f.after()
		}
	}
	e.mu.Unlock()
	if err := pause(ctx, reply); err != nil && reply > 0 {
		return all(n, fmt.Errorf("memqueue: %s: %w", op, err))
	}
	return errs
}

// find returns the message a receipt was given for, nil if it was deleted, and
// whether the receipt is that of its latest receive.
func (q *memQueue) find(receipt string) (m *message, current bool, err error) {
	made, rest, _ := strings.Cut(receipt, ".")
	num, _, ok := strings.Cut(rest, ".")
	seq, perr := strconv.ParseUint(num, 10, 64)
	if !ok || perr != nil || made != strconv.FormatUint(q.made, 10) || seq == 0 || seq > q.e.seq {
		return nil, false, fmt.Errorf("memqueue: %w: not a receipt of this queue", queue.ErrReceipt)
	}
	m = q.live[seq]
	return m, m != nil && q.receipt(m) == receipt, nil
}
