package inbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// maxOpen bounds the jobs due already that are claimed and not finished, per
	// lane; beyond it they are left to the schedulers.
	maxOpen = 2000
	// claimFor is how long the inserts of a claimed row are repeated as a claim:
	// later it might be too old to be sent on.
	claimFor = 5 * time.Second
)

// insert writes one batch of rows.
func (l *lane) insert(items []*item) {
	ctx, cancel := context.WithTimeout(l.working, callTimeout)
	defer cancel()
	items = l.admit(items)
	if len(items) == 0 {
		l.health.idle() // should one have been the probe
		return
	}
	if l.writes != nil && l.writes.WaitN(ctx, len(items)) != nil {
		for _, it := range items { // no room in the budget for as long as a call may take
			l.later(it, l.insertOne)
		}
		return
	}
	// The zero time asks for whatever view there is: it was fresh enough when the
	// items were decoded.
	counts, err := l.in.epochs.at(ctx, time.Time{})
	if err != nil {
		l.settleFailed(items, err)
		return
	}
	now := l.in.o.Clock.Now()
	claims := make(map[string]int)
	ops := make([]store.Op, len(items))
	for i, it := range items {
		ops[i] = l.op(ctx, it, now, counts, claims)
	}
	l.in.metrics.batched(l.id, len(ops))
	l.settle(items, ops, l.in.o.Store.Write(ctx, ops))
}

func (l *lane) insertOne(it *item) { l.inserts.Add(it) }

// admit returns the items to insert now: without those that are out of time,
// that were stored moments ago, or whose trigger is being inserted by another.
func (l *lane) admit(items []*item) []*item {
	local := l.in.o.Clock.Local()
	kept := items[:0:0]
	for _, it := range items {
		switch {
		case l.working.Err() != nil:
			l.release(it, 0)
		case local.After(it.until):
			l.release(it, backoff(it.msg.ReceiveCount))
		case !l.in.busy.enter(l, it):
		case l.in.recent.has(it.digest):
			l.finish(it, outcomeRemembered)
		default:
			kept = append(kept, it)
		}
	}
	return kept
}

// op returns the conditional insert of an item. Before: no row under its key,
// nor under the other places of a keyed id. After: S; or A by us, if it is due
// and its service takes messages now. The loser finds what is there.
func (l *lane) op(ctx context.Context, it *item, now time.Time, counts trigger.Epochs, claims map[string]int) store.Op {
	row := store.Row{Trigger: it.t, State: trigger.StateScheduled, Created: now.UTC().Truncate(time.Millisecond)}
	switch {
	case it.claimed != "" && now.Sub(it.at) < claimFor:
		row.State = it.claimed
	case it.claimed == "" && l.mayClaim(ctx, it, now, claims):
		it.claimed, it.at = trigger.AcquiredBy(l.in.o.Owner, now), now
		row.State = it.claimed
	}
	key := row.Key()
	op := store.Op{Kind: store.Insert, Key: key, Row: &row}
	if places := counts.Places(key); len(places) > 1 {
		op.Absent = places[1:]
	}
	return op
}

// mayClaim reports whether a job is due and may be sent by this process now.
// It takes a token of the service's rate where it says yes.
func (l *lane) mayClaim(ctx context.Context, it *item, now time.Time, claims map[string]int) bool {
	if it.t.Due.After(now) || l.isStopping() || l.in.o.Clock.Usable() != nil {
		return false
	}
	to, service, lane := l.in.lanes[it.t.Lane], it.t.Service, it.t.Lane
	gate := l.in.gates.For(service)
	gate.Refresh(ctx)
	if v, _ := gate.Verdict(lane); v != dispatch.Open {
		return false
	}
	if to.d.Open()+len(claims) >= maxOpen || to.claimBytes.Load() >= int64(l.in.o.MaxBytes) ||
		to.d.Room(service)-claims[service] <= 0 || gate.Take(lane, 1) < 1 {
		return false
	}
	claims[service]++
	return true
}

// settle deals with the results of one batch.
func (l *lane) settle(items []*item, ops []store.Op, results []store.Result) {
	var failed []*item
	var why error
	for i, r := range results {
		it := items[i]
		switch {
		case r.Err == nil:
			l.stored(it, ops[i].Row.State)
		case errors.Is(r.Err, store.ErrConflict):
			l.conflict(it, ops[i].Key, r.Found)
		case errors.Is(r.Err, store.ErrInvalid):
			l.unclaim(it)
			l.deadLetter(it, ReasonRefused, r.Err)
		default:
			if errors.Is(r.Err, store.ErrThrottled) {
				if !it.unknown {
					l.unclaim(it) // surely not applied: a later try decides anew
				}
			} else {
				it.unknown = true
			}
			failed, why = append(failed, it), r.Err
		}
	}
	if len(failed) < len(items) {
		l.tableWorked()
	}
	if len(failed) == 0 {
		return
	}
	if len(failed) == len(items) {
		l.settleFailed(failed, why)
		return
	}
	for _, it := range failed {
		l.later(it, l.insertOne)
	}
}

// settleFailed deals with a batch of which the table took nothing. Only items
// tried for the first time count against its health: one that fails for a
// reason of its own must not stop the others for as long as it is retried.
func (l *lane) settleFailed(items []*item, why error) {
	for _, it := range items {
		if it.tries == 0 && l.working.Err() == nil {
			l.tableFailed(why)
			break
		}
	}
	for _, it := range items {
		l.later(it, l.insertOne)
	}
}

// unclaim forgets a claim that surely did not come about.
func (l *lane) unclaim(it *item) {
	if it.claimed != "" {
		l.in.gates.For(it.t.Service).Return(it.t.Lane, 1)
		it.claimed = ""
	}
}

// stored deals with a row that is in the table by this item's doing.
func (l *lane) stored(it *item, state trigger.State) {
	now := l.in.o.Clock.Now()
	l.in.recent.add(it.digest)
	l.in.metrics.stored(l.id, now.Sub(it.msg.SentAt))
	if f := l.in.o.Forecast; f != nil {
		f.Add(it.t.Service, it.t.Due, 1)
	}
	if state == trigger.StateScheduled {
		l.unclaim(it)
		l.finish(it, outcomeInserted)
		return
	}
	row := store.Row{Trigger: it.t, State: trigger.StateScheduled}
	to, size := l.in.lanes[it.t.Lane], int64(row.Size())
	to.claimBytes.Add(size)
	to.d.Add(&dispatch.Claim{
		Key: row.Key(), Row: row, Claimed: it.claimed, At: it.at,
		// Released, it is an ordinary row: the schedulers find it.
		Done: func(*dispatch.Claim, dispatch.Outcome) { to.claimBytes.Add(-size) },
	})
	l.finish(it, outcomeDirect)
}

// conflict deals with a row that was in the way.
func (l *lane) conflict(it *item, key trigger.Key, found *store.Row) {
	// Nobody else inserts this trigger in this process meanwhile (see enter), and
	// the owner is this start of it: the state tells a lost reply.
	if found != nil && it.claimed != "" && found.State == it.claimed && found.Key() == key {
		l.stored(it, it.claimed)
		return
	}
	l.unclaim(it)
	switch {
	case found == nil:
		// It was there, and has been delivered and deleted since.
		l.finish(it, outcomeGone)
	case found.State.Tombstone() && (found.Service == it.t.Service || found.Service == ""):
		l.finish(it, outcomeCancelled)
	case !found.State.Tombstone() && found.Service == it.t.Service && bytes.Equal(found.Payload, it.t.Payload):
		l.in.recent.add(it.digest)
		l.finish(it, outcomeDuplicate)
	default:
		what := "payload"
		if found.Service != it.t.Service {
			what = "service"
		}
		l.deadLetter(it, ReasonConflict, &trigger.FieldError{
			Field: what, Msg: fmt.Sprintf("differs from that of the trigger with this id and due time, which is %s", found.State.Describe()),
		})
	}
}

// finish counts a submission and acknowledges its message.
func (l *lane) finish(it *item, o outcome) {
	l.in.metrics.ended(l.id, o)
	l.ack(it)
}
