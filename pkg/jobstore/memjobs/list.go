package memjobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const maxLimit = 100

// pageOf cuts a page out of a whole list, newest first. place names an item's
// place uniquely; the cursor is the last item's, sealed with the query.
func pageOf[T any](query string, all []T, place func(T) string, cursor string, limit int) (jobstore.Page[T], error) {
	var none jobstore.Page[T]
	if limit < 1 || limit > maxLimit {
		return none, fmt.Errorf("list: limit %d; want 1 to %d", limit, maxLimit)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(place(b), place(a)) })
	if cursor != "" {
		after, ok := open(query, cursor)
		if !ok {
			return none, fmt.Errorf("list: %w", jobstore.ErrCursor)
		}
		i, _ := slices.BinarySearchFunc(all, after, func(x T, at string) int { return cmp.Compare(at, place(x)) })
		for i < len(all) && place(all[i]) >= after {
			i++
		}
		all = all[i:]
	}
	if len(all) <= limit {
		return jobstore.Page[T]{Items: all}, nil
	}
	all = all[:limit]
	return jobstore.Page[T]{Items: all, Next: seal(query, place(all[limit-1]))}, nil
}

func sum(query, place string) string {
	h := sha256.Sum256([]byte(query + "\x00" + place))
	return string(h[:8])
}

func seal(query, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(sum(query, place) + place))
}

func open(query, cursor string) (string, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < 8 || sum(query, string(raw[8:])) != string(raw[:8]) {
		return "", false
	}
	return string(raw[8:]), true
}

// Jobs implements [jobstore.Store].
func (s *Store) Jobs(ctx context.Context, q jobstore.JobQuery) (jobstore.Page[job.Job], error) {
	var page jobstore.Page[job.Job]
	err := s.do(ctx, "jobs", nil, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name, value, valued := strings.Cut(q.Label, "=")
		var all []job.Job
		for _, j := range s.jobs {
			label, has := j.Labels[name]
			switch {
			case j.Tenant != q.Tenant, q.Status == "" && j.Status == job.JobIsDeleted, q.Status != "" && j.Status != q.Status,
				name != "" && (!has || valued && label != value):
				continue
			}
			c := cloneJob(*j)
			c.Payload = nil
			all = append(all, c)
		}
		page, err = pageOf(strings.Join([]string{"jobs", q.Tenant, string(q.Status), q.Label}, "\x00"), all, func(j job.Job) string {
			return fmt.Sprintf("%015d#%s", j.Created.UnixMilli(), j.ID)
		}, q.Cursor, q.Limit)
		return err
	})
	return page, err
}

// Runs implements [jobstore.Store].
func (s *Store) Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error) {
	var page jobstore.Page[job.Run]
	err := s.do(ctx, "runs", nil, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var all []job.Run
		for _, r := range s.runs[q.Job] {
			if q.State == "" || r.State == q.State {
				c := cloneRun(*r)
				c.Payload = nil
				if c.Call != nil {
					c.Call.Payload = nil
				}
				all = append(all, c)
			}
		}
		page, err = pageOf("runs\x00"+q.Job.String()+"\x00"+string(q.State), all, func(r job.Run) string { return r.ID.Sort() }, q.Cursor, q.Limit)
		return err
	})
	return page, err
}

// deadLetter reports whether a run is listed as one.
func deadLetter(r *job.Run) bool {
	return r.State == job.Dead && r.Redriven == "" && r.Kind != job.Notice
}

// Dead implements [jobstore.Store].
func (s *Store) Dead(ctx context.Context, q jobstore.DeadQuery) (jobstore.Page[job.Run], error) {
	var page jobstore.Page[job.Run]
	err := s.do(ctx, "dead", nil, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var all []job.Run
		for id, runs := range s.runs {
			if !q.Job.IsZero() && q.Job != id {
				continue
			}
			for _, r := range runs {
				if !deadLetter(r) || r.Tenant != q.Tenant || (!q.From.IsZero() && r.Ended.Before(q.From)) || (!q.Until.IsZero() && r.Ended.After(q.Until)) {
					continue
				}
				all = append(all, cloneRun(*r))
			}
		}
		query := fmt.Sprintf("dead\x00%s\x00%s\x00%d\x00%d", q.Tenant, q.Job, q.From.UnixMilli(), q.Until.UnixMilli())
		page, err = pageOf(query, all, func(r job.Run) string { return fmt.Sprintf("%015d#%s", r.Ended.UnixMilli(), r.ID) }, q.Cursor, q.Limit)
		return err
	})
	return page, err
}

// shardOf spreads jobs over the index of what should have woken.
func shardOf(id trigger.ID) int { return int(sha256.Sum256(id[:])[0]) % jobstore.Wakes }

// Due implements [jobstore.Store].
func (s *Store) Due(ctx context.Context, shard int, before time.Time, limit int) ([]jobstore.Wake, error) {
	var due []jobstore.Wake
	err := s.do(ctx, "due", nil, func() error {
		if shard < 0 || shard >= jobstore.Wakes || limit < 1 {
			return fmt.Errorf("due: shard %d, limit %d; want 0 to %d, and 1 or more", shard, limit, jobstore.Wakes-1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, j := range s.jobs {
			if shardOf(id) != shard {
				continue
			}
			if !j.Wake.IsZero() && j.Wake.Before(before) {
				due = append(due, jobstore.Wake{Job: id, At: j.Wake})
			}
			for _, r := range s.runs[id] {
				if !r.Wake.IsZero() && r.Wake.Before(before) {
					due = append(due, jobstore.Wake{Job: id, Run: r.ID, At: r.Wake})
				}
			}
		}
		return nil
	})
	slices.SortFunc(due, func(a, b jobstore.Wake) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Job.String(), b.Job.String()))
	})
	return due[:min(len(due), max(limit, 0))], err
}

// Audit implements [jobstore.Store].
func (s *Store) Audit(ctx context.Context, tenant, cursor string, limit int) (jobstore.Page[jobstore.AuditRecord], error) {
	var page jobstore.Page[jobstore.AuditRecord]
	err := s.do(ctx, "audit", nil, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		page, err = pageOf("audit\x00"+tenant, slices.Clone(s.audit[tenant]), func(a jobstore.AuditRecord) string {
			return fmt.Sprintf("%015d#%s", a.At.UnixMilli(), a.ID)
		}, cursor, limit)
		return err
	})
	return page, err
}
