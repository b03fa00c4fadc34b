// Package memstore is the trigger table in memory, for tests and simulations.
//
// It owns the rows of one table, with the conditions, paging and billing of
// DynamoDB, and can inject failures, delays, throttling, lost replies and stale
// reads. It refuses nothing that DynamoDB would take, persists nothing, and
// deletes expired rows only when told to (see [Store.Expire]).
//
// A Store may be used concurrently. Its lock is never held while it waits, and
// it waits by timers alone, so that it runs under testing/synctest.
package memstore

import (
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// DefaultPageRows is the page size where Options gives none: what DynamoDB puts
// in a page of 1 MB when rows are as large as they are meant to be.
const DefaultPageRows = 1000

// Options configures a Store. The zero value is a table without faults.
type Options struct {
	// Now is the table's clock. Default: time.Now.
	Now func() time.Time
	// PageRows is the largest number of rows a Range or Dead reads at once.
	// Default: DefaultPageRows.
	PageRows int
	// Faults is asked what shall go wrong. Default: nothing.
	Faults Faults
	// StaleWindow is how far back Fault.Stale can see. The recent past is only
	// kept if it is positive. Default: 0, reads are never stale.
	StaleWindow time.Duration
	// LaxDelete lets a Delete of a missing row succeed, as PartiQL does. Default:
	// it is a conflict that found nothing.
	LaxDelete bool
	// OnChange sees every change of a row, in order, with nil for no row. It runs
	// under the store's lock: it must be quick and must not call the store.
	// Payload and headers are shared with the store and must not be changed.
	OnChange func(before, after *store.Row)
}

// place names a partition of a lane.
type place struct {
	lane      trigger.Lane
	partition int
}

type partition struct {
	rows    list
	history []change
}

// Store implements store.Store. Payloads and headers of the rows it returns are
// shared with it and must not be changed.
type Store struct {
	opts Options

	mu         sync.Mutex
	partitions map[place]*partition
	dead       map[string]*list // by service
	services   map[string]string
	epochs     trigger.Epochs // nil: no settings row
	counts     Counts
}

var _ store.Store = (*Store)(nil)

// New returns an empty table.
func New(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.PageRows <= 0 {
		opts.PageRows = DefaultPageRows
	}
	return &Store{
		opts:       opts,
		partitions: make(map[place]*partition),
		dead:       make(map[string]*list),
		services:   make(map[string]string),
		counts:     make(Counts),
	}
}

// Len returns the number of rows, tombstones included.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.partitions {
		n += p.rows.n
	}
	return n
}

// Rows returns a snapshot of all rows; each partition's are in order.
func (s *Store) Rows() []store.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []store.Row
	for _, p := range s.partitions {
		for _, block := range p.rows.blocks {
			for _, r := range block {
				rows = append(rows, *r.row())
			}
		}
	}
	return rows
}

// Expire deletes the rows that expired before now, as DynamoDB does within two
// days, and returns how many. It is free and has no faults.
func (s *Store) Expire(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*record
	for _, p := range s.partitions {
		for _, block := range p.rows.blocks {
			for _, r := range block {
				if r.expires != 0 && r.expires < now.Unix() {
					gone = append(gone, r)
				}
			}
		}
	}
	for _, r := range gone {
		s.set(r, nil)
	}
	return len(gone)
}

func (s *Store) find(k trigger.Key) *record {
	p := s.partitions[place{k.Lane, k.Partition}]
	if p == nil {
		return nil
	}
	return p.rows.get(k)
}

// set replaces before by after: two records of one key, either of them nil.
func (s *Store) set(before, after *record) {
	r := after
	if r == nil {
		r = before
	}
	key := r.key()
	at := place{key.Lane, key.Partition}
	p := s.partitions[at]
	if p == nil {
		p = &partition{}
		s.partitions[at] = p
	}
	if after == nil {
		p.rows.remove(key)
	} else {
		after.service = s.intern(after.service)
		p.rows.put(after)
	}
	s.index(before, after)
	if s.opts.StaleWindow > 0 {
		p.remember(s.opts.Now(), s.opts.StaleWindow, before, after)
	}
	if s.opts.OnChange != nil {
		s.opts.OnChange(rowOf(before), rowOf(after))
	}
}

// index keeps the list of a service's dead rows.
func (s *Store) index(before, after *record) {
	if before != nil && before.state == trigger.StateDead {
		s.dead[before.service].remove(before.key())
	}
	if after != nil && after.state == trigger.StateDead {
		l := s.dead[after.service]
		if l == nil {
			l = &list{}
			s.dead[after.service] = l
		}
		l.put(after)
	}
}

// intern lets all rows share one copy of their service's name.
func (s *Store) intern(name string) string {
	if kept, ok := s.services[name]; ok {
		return kept
	}
	s.services[name] = name
	return name
}

func rowOf(r *record) *store.Row {
	if r == nil {
		return nil
	}
	return r.row()
}
