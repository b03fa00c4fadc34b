package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// finish is how a claim is to leave the acquired state.
type finish struct {
	outcome Outcome
	reason  string // of a burial
	tries   int
}

const (
	finishTimeout = 10 * time.Second
	finishFirst   = 50 * time.Millisecond
	finishMost    = 5 * time.Second
	// finishGive is the age of a claim up to which its release or burial is
	// repeated: soon after it others recover the row. A completion is repeated for
	// as long as the process lives, since giving up means a duplicate.
	finishGive = 55 * time.Second
)

// complete deletes the row. Before: A by us. A loser finds another state, or
// no row, and leaves it.
func (d *Dispatcher) complete(c *Claim) {
	c.finish = finish{outcome: Delivered}
	d.finishes.Add(c)
}

// release lets the row wait again. Before: A by us; after: S if it was surely
// never sent, else S!.
func (d *Dispatcher) release(c *Claim) {
	c.ReleasedTo = trigger.StateScheduled
	if c.maybeSent || c.Row.State == trigger.StateMaybeSent {
		c.ReleasedTo = trigger.StateMaybeSent
	}
	c.finish = finish{outcome: Released}
	d.finishes.Add(c)
}

// bury marks the row dead. Before: A by us.
func (d *Dispatcher) bury(c *Claim, reason string) {
	c.finish = finish{outcome: Buried, reason: reason}
	d.finishes.Add(c)
}

// flushFinishes writes one batch of completions, releases and burials.
func (d *Dispatcher) flushFinishes(claims []*Claim) {
	ctx, cancel := context.WithTimeout(d.giveUp, finishTimeout)
	defer cancel()
	var ops []store.Op
	var of []*Claim
	for _, c := range claims {
		switch c.finish.outcome {
		case Delivered:
			ops = append(ops, store.Op{Kind: store.Delete, Key: c.Key, From: c.Claimed})
		case Released:
			ops = append(ops, store.Op{Kind: store.Transition, Key: c.Key, From: c.Claimed, To: c.ReleasedTo})
		default:
			d.finished(c, d.buryNow(ctx, c))
			continue
		}
		of = append(of, c)
	}
	if len(ops) == 0 {
		return
	}
	if d.o.Writes != nil {
		if err := d.o.Writes.WaitN(ctx, len(ops)); err != nil {
			for _, c := range of { // no room in the budget for as long as a call may take
				d.finished(c, store.Result{Err: fmt.Errorf("write budget: %w", store.ErrThrottled)})
			}
			return
		}
	}
	for i, r := range d.o.Table.Write(ctx, ops) {
		d.finished(of[i], r)
	}
}

func (d *Dispatcher) buryNow(ctx context.Context, c *Claim) store.Result {
	d.o.Log.Error("trigger cannot be sent and is dead", "service", c.Row.Service,
		"trigger_id", c.Row.ID.String(), "handle", c.Row.Handle().String(), "reason", c.finish.reason)
	expires := d.o.Clock.Now().Add(d.o.DeadFor)
	return d.o.Table.Bury(ctx, c.Key, c.Claimed, c.finish.reason, expires)
}

// finished ends a claim by the result of its last write, or tries again.
func (d *Dispatcher) finished(c *Claim, r store.Result) {
	switch {
	case r.Err == nil:
		d.end(c, c.finish.outcome)
		return
	case errors.Is(r.Err, store.ErrConflict):
		// Applied before with the answer lost, or recovered by another process:
		// either way the row is no longer ours, and what was sent stays sent.
		d.o.Metrics.conflict(d.o.Lane)
		switch {
		case c.finish.outcome == Delivered,
			c.finish.outcome == Released && r.Found != nil && r.Found.State == c.ReleasedTo,
			c.finish.outcome == Buried && r.Found != nil && r.Found.State == trigger.StateDead:
			d.end(c, c.finish.outcome)
		default:
			d.end(c, Dropped)
		}
		return
	}
	c.finish.tries++
	if d.giveUp.Err() != nil || c.finish.outcome != Delivered && d.o.Clock.Now().Sub(c.At) > finishGive {
		d.o.Log.Warn("claim could not be finished: left for the sweep to recover", "service", c.Row.Service,
			"trigger_id", c.Row.ID.String(), "wanted", c.finish.outcome.String(), "error", r.Err)
		d.end(c, Dropped)
		return
	}
	pause := min(finishFirst<<min(c.finish.tries-1, 8), finishMost)
	pause += time.Duration(rand.Float64() * 0.5 * float64(pause)) //nolint:gosec // jitter.
	go func() {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-d.giveUp.Done():
		}
		d.finishes.Add(c)
	}()
}
