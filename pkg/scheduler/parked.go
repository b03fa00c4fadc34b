package scheduler

import (
	"context"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// parkedRange is where a service's rows were skipped: from behind after (or
// from lo) up to hi. The service's cursor reads it again when it may send.
type parkedRange struct {
	lo, hi  trigger.Key
	after   *trigger.Key
	changes int // every extension counts, so that a reader notices
	lowered int // those downwards
}

// ahead reports whether a key lies in what the cursor has not read yet.
func (r *parkedRange) ahead(key trigger.Key) bool {
	if key.Compare(r.hi) > 0 {
		return false
	}
	if r.after != nil {
		return key.Compare(*r.after) > 0
	}
	return key.Compare(r.lo) >= 0
}

// start is where the cursor stands.
func (r *parkedRange) start() trigger.Key {
	if r.after != nil {
		return *r.after
	}
	return r.lo
}

// stepParked lets the parked services that may send again read on in their
// ranges, oldest first. They take turns in rounds, a page serves all of a round
// whose cursors lie in it, and a step is a few pages, so that passes are never
// kept waiting by many services. more reports that rows are left that could be
// taken now.
func (p *part) stepParked(ctx context.Context) (more bool, err error) {
	if len(p.round) == 0 {
		p.startRound(ctx)
	}
	for range pagesAStep {
		ask, reads := p.nextParked()
		if len(reads) == 0 {
			break
		}
		page, err := p.l.s.o.Store.Range(ctx, ask)
		if err != nil {
			return false, err
		}
		p.takeParked(ctx, page, reads)
	}
	return len(p.round) > 0 || p.roundMore, nil
}

// startRound gives each parked service that may send again a number of rows.
func (p *part) startRound(ctx context.Context) {
	p.mu.Lock()
	names := make([]string, 0, len(p.parked))
	for name := range p.parked {
		names = append(names, name)
	}
	p.mu.Unlock()
	p.roundMore = false
	for _, name := range names {
		if !p.l.admits(ctx, name) {
			continue
		}
		if p.round[name] = p.l.cursorQuota(name); p.round[name] < 0 {
			p.round[name] = roundRows
		}
	}
}

// nextParked is the next page to read for the round, from its hindmost cursor,
// and the ranges as they are at this moment.
func (p *part) nextParked() (ask store.Range, reads map[string]*parkedRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reads = make(map[string]*parkedRange, len(p.round))
	var first *parkedRange
	ask = store.Range{Lane: p.l.id, Partition: p.id, Limit: pageRows}
	for name := range p.round {
		r := p.parked[name]
		if r == nil {
			delete(p.round, name)
			continue
		}
		read := *r
		reads[name] = &read
		ask.To = max(ask.To, r.hi.Due)
		ask.Service = name
		if first == nil || read.start().Compare(first.start()) < 0 {
			first = &read
		}
	}
	if len(reads) > 1 {
		ask.Service = ""
	}
	if first != nil {
		ask.From, ask.After = first.lo.Due, first.after
	}
	return ask, reads
}

// takeParked admits the rows of one page. A service leaves the round where there
// is no room or no grant for more, or when its range is read to the end.
func (p *part) takeParked(ctx context.Context, page store.Page, reads map[string]*parkedRange) {
	var last *trigger.Key
	for i := range page.Rows {
		row := &page.Rows[i]
		key := p.keyOf(row)
		if read := reads[row.Service]; read != nil && row.State.Waiting() && read.ahead(key) && !p.unpark(ctx, key, row) {
			p.mu.Lock()
			p.advance(row.Service, read, last)
			p.mu.Unlock()
			delete(p.round, row.Service)
			delete(reads, row.Service)
		}
		last = &key
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, read := range reads {
		r := p.parked[name]
		switch {
		case r == nil:
			delete(p.round, name)
		case page.Next != nil && page.Next.Compare(read.hi) < 0:
			p.advance(name, read, page.Next)
		case r.changes != read.changes:
			// Rows were skipped meanwhile: go on behind what was read, or from the new start.
			p.advance(name, read, last)
		default:
			delete(p.parked, name)
			delete(p.round, name)
		}
	}
}

// unpark takes a row of a service in the round into memory; false if it may not.
func (p *part) unpark(ctx context.Context, key trigger.Key, row *store.Row) bool {
	left := p.round[row.Service]
	ok := left > 0 && p.l.admits(ctx, row.Service)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known(key) {
		return true
	}
	if left <= 0 && p.l.cursorQuota(row.Service) < 0 {
		p.roundMore = true // its turn is over, not what it may have
	}
	if !ok || p.crowded(row) || p.track(key, row) == noRoom {
		return false
	}
	p.round[row.Service] = left - 1
	return true
}

// advance moves a range's start behind a key that was read, unless it lies
// behind that already or was extended downwards meanwhile. Called with mu held.
func (p *part) advance(service string, read *parkedRange, after *trigger.Key) {
	if r := p.parked[service]; r != nil && r.lowered == read.lowered && after != nil && after.Compare(r.start()) >= 0 {
		r.after = after
	}
}
