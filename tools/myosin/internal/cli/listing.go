package cli

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// ranger reads ranges of the trigger table.
type ranger interface {
	Range(ctx context.Context, r store.Range) (store.Page, error)
}

// listing finds the first limit triggers of a service, by due time, over many
// partitions. Once it has as many, it reads no partition beyond the last of them.
type listing struct {
	table      ranger
	service    string
	from, to   int64 // epoch ms, both included
	limit      int
	tombstones bool
	page       func() // called for each page read

	mu   sync.Mutex
	rows []store.Row // in order, at most limit
	over bool        // rows were left out
}

// read reads the partitions of lanes and returns the rows, and whether there are
// more. step is called for each partition.
func (q *listing) read(ctx context.Context, lanes []trigger.Lane, partitions int, step func()) ([]store.Row, bool, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, lane := range lanes {
		for p := range partitions {
			g.Go(func() error {
				defer step()
				return q.partition(ctx, lane, p)
			})
		}
	}
	err := g.Wait()
	return q.rows, q.over, err
}

func (q *listing) partition(ctx context.Context, lane trigger.Lane, p int) error {
	r := store.Range{Lane: lane, Partition: p, From: q.from, Service: q.service, Heads: true}
	for {
		r.To = q.bound()
		page, err := q.table.Range(ctx, r)
		if err != nil {
			return err
		}
		q.page()
		q.add(page.Rows)
		if page.Next == nil || page.Next.Due > q.bound() {
			return nil
		}
		r.After = page.Next
	}
}

// bound is the greatest due time that can still matter.
func (q *listing) bound() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.rows) < q.limit {
		return q.to
	}
	return min(q.to, q.rows[len(q.rows)-1].Due.UnixMilli())
}

func (q *listing) add(rows []store.Row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range rows {
		if !rows[i].State.Tombstone() || q.tombstones {
			q.rows = append(q.rows, rows[i])
		}
	}
	slices.SortFunc(q.rows, func(a, b store.Row) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(b.Lane, a.Lane), slices.Compare(a.ID[:], b.ID[:]))
	})
	if len(q.rows) > q.limit {
		q.rows, q.over = q.rows[:q.limit], true
	}
}
