package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Range implements store.Store. As in DynamoDB, a page that was filled has a
// Next even where nothing follows.
func (s *Store) Range(ctx context.Context, q store.Range) (store.Page, error) {
	from := trigger.Key{Lane: q.Lane, Partition: q.Partition, Due: q.From}
	after := q.After != nil && compareKeys(*q.After, from) >= 0
	start := from
	if after {
		start = *q.After
		start.Lane, start.Partition = q.Lane, q.Partition
	}
	limit := q.Limit
	if limit <= 0 || limit > s.opts.PageRows {
		limit = s.opts.PageRows
	}
	var page store.Page
	err := s.do(ctx, OpRange, from, func(f Fault) {
		cost, bytes := Count{}, 0
		defer func() {
			cost.ReadUnits = readUnits(bytes, q.Consistent)
			s.count(OpRange, cost)
		}()
		p := s.partitions[place{q.Lane, q.Partition}]
		if p == nil {
			return
		}
		var past []was
		if f.Stale > 0 && !q.Consistent {
			past = p.past(s.opts.Now().Add(-f.Stale))
		}
		p.scan(start, past, func(r *record) bool {
			if r.due > q.To {
				return false
			}
			if after && compare(r, &start) == 0 {
				return true
			}
			bytes += r.size()
			cost.Rows++
			if q.Service == "" || r.service == q.Service {
				page.Rows = append(page.Rows, store.Row{})
				r.fill(&page.Rows[len(page.Rows)-1], q.Heads)
			}
			if cost.Rows == limit {
				key := r.key()
				page.Next = &key
				return false
			}
			return true
		})
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("range of %s: %w", from.P(), err)
	}
	return page, nil
}

// compareKeys orders keys as [list] does.
func compareKeys(a, b trigger.Key) int {
	return compare(&record{due: a.Due, id: a.ID, lane: a.Lane, partition: uint16(a.Partition)}, &b) //nolint:gosec // < MaxPartitions.
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key trigger.Key) (*store.Row, error) {
	var row *store.Row
	err := s.do(ctx, OpGet, key, func(Fault) {
		cost := Count{ReadUnits: 1}
		if r := s.find(key); r != nil {
			row = r.row()
			cost.Rows, cost.ReadUnits = 1, readUnits(r.size(), true)
		}
		s.count(OpGet, cost)
	})
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return row, nil
}

// Dead implements store.Store.
func (s *Store) Dead(ctx context.Context, service string, after *trigger.Key, limit int) (store.Page, error) {
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, s.opts.PageRows)
	var page store.Page
	err := s.do(ctx, OpDead, trigger.Key{}, func(Fault) {
		bytes := 0
		l := s.dead[service]
		if l == nil {
			l = &list{}
		}
		c := cursor{l: l}
		if after != nil {
			var found bool
			if c, found = l.seek(*after); found {
				c.next()
			}
		}
		for r := c.at(); r != nil && page.Next == nil; r = c.at() {
			bytes += r.size()
			page.Rows = append(page.Rows, *r.row())
			if len(page.Rows) == limit {
				key := r.key()
				page.Next = &key
			}
			c.next()
		}
		s.count(OpDead, Count{Rows: len(page.Rows), ReadUnits: readUnits(bytes, false)})
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("dead triggers of %s: %w", service, err)
	}
	return page, nil
}

// Epochs implements store.Store.
func (s *Store) Epochs(ctx context.Context) (trigger.Epochs, error) {
	var e trigger.Epochs
	err := s.do(ctx, OpEpochs, trigger.Key{}, func(Fault) {
		s.count(OpEpochs, Count{ReadUnits: 1})
		e = s.current()
	})
	if err != nil {
		return nil, fmt.Errorf("epochs: %w", err)
	}
	return e, nil
}

func (s *Store) current() trigger.Epochs {
	if s.epochs == nil {
		return trigger.Epochs{{N: trigger.DefaultPartitions}}
	}
	return slices.Clone(s.epochs)
}

// SetEpochs implements store.Store.
func (s *Store) SetEpochs(ctx context.Context, old, next trigger.Epochs) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("set epochs: %w: %w", store.ErrInvalid, err)
	}
	var conflict error
	err := s.do(ctx, OpSetEpochs, trigger.Key{}, func(Fault) {
		cost := Count{WriteUnits: 1}
		if len(old) == 0 && s.epochs != nil || len(old) > 0 && !sameEpochs(old, s.current()) {
			cost.Conflicts, conflict = 1, store.ErrConflict
		} else {
			s.epochs = make(trigger.Epochs, len(next))
			for i, e := range next {
				s.epochs[i] = trigger.Epoch{N: e.N, From: fromMilli(toMilli(e.From))}
			}
		}
		s.count(OpSetEpochs, cost)
	})
	if err == nil {
		err = conflict
	}
	if err != nil {
		return fmt.Errorf("set epochs: %w", err)
	}
	return nil
}

func sameEpochs(a, b trigger.Epochs) bool {
	return slices.EqualFunc(a, b, func(x, y trigger.Epoch) bool {
		return x.N == y.N && toMilli(x.From) == toMilli(y.From)
	})
}
