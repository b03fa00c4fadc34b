package scheduler

import (
	"context"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// stepParked lets each parked service that may send again read on in its range,
// oldest first. more reports that a range has rows left that could be taken now.
func (p *part) stepParked(ctx context.Context) (more bool, err error) {
	p.mu.Lock()
	names := make([]string, 0, len(p.parked))
	for name := range p.parked {
		names = append(names, name)
	}
	p.mu.Unlock()
	for _, name := range names {
		if !p.l.admits(ctx, name) {
			continue
		}
		again, err := p.readParked(ctx, name)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// readParked reads a few pages of a service's range.
func (p *part) readParked(ctx context.Context, service string) (more bool, err error) {
	o := &p.l.s.o
	left := p.l.cursorQuota(service)
	for range pagesAStep {
		p.mu.Lock()
		r := p.parked[service]
		if r == nil {
			p.mu.Unlock()
			return false, nil
		}
		ask := store.Range{
			Lane: p.l.id, Partition: p.id, From: r.lo.Due, To: r.hi.Due, After: r.after, Limit: pageRows, Service: service,
		}
		read := *r
		p.mu.Unlock()
		page, err := o.Store.Range(ctx, ask)
		if err != nil {
			return false, err
		}
		done, stop := p.takeParked(ctx, service, page, &read, &left)
		if done || stop {
			return false, nil
		}
	}
	return true, nil
}

// takeParked admits the rows of one page of a service's range. done: the range
// is read to its end and gone. stop: there is no room or no grant for more.
func (p *part) takeParked(ctx context.Context, service string, page store.Page, read *parkedRange, left *int) (done, stop bool) {
	var after *trigger.Key
	for i := range page.Rows {
		row := &page.Rows[i]
		key := p.keyOf(row)
		if row.State.Waiting() {
			ok := *left != 0 && p.l.admits(ctx, service)
			p.mu.Lock()
			known := p.known(key)
			if !known && (!ok || p.crowded(row) || p.track(key, row) == noRoom) {
				p.advance(service, read, after)
				p.mu.Unlock()
				return false, true
			}
			p.mu.Unlock()
			if !known {
				*left--
			}
		}
		after = &key
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if page.Next != nil {
		p.advance(service, read, page.Next)
		return false, false
	}
	r := p.parked[service]
	if r == nil {
		return true, false
	}
	if r.changes != read.changes {
		// Rows were skipped meanwhile: go on behind what was read, or from the new start.
		p.advance(service, read, after)
		return false, false
	}
	delete(p.parked, service)
	return true, false
}

// advance moves a range's start behind a key that was read, unless the range
// was extended downwards meanwhile. Called with mu held.
func (p *part) advance(service string, read *parkedRange, after *trigger.Key) {
	if r := p.parked[service]; r != nil && r.lowered == read.lowered && after != nil {
		r.after = after
	}
}
