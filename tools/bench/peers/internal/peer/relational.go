package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
)

// The relational baseline is our reading of what the first Dynein was built on:
// Quartz over a relational database, four SELECT and three INSERT a job, with
// partitions. Its tables are cut down from Quartz's own. Every change to a
// partition's triggers happens under a row lock on the partition's row of the
// locks table, taken with SELECT … FOR UPDATE, as in Quartz's JobStoreTX:
//
//	store     lock; insert job, insert trigger
//	acquire   lock; select the next trigger; update it; insert it as fired
//	fire      select the job; update the fired one
//	complete  delete fired, trigger, job
//
// Quartz does more: it asks for paused groups, calendars and existing names,
// and takes the lock for fire and complete too. What is left out favours the
// baseline.
const schema = `
CREATE TABLE locks (sched_name text NOT NULL, lock_name text NOT NULL, PRIMARY KEY (sched_name, lock_name));
CREATE TABLE job_details (
	sched_name text NOT NULL, job_name bigint NOT NULL, job_class text NOT NULL, durable boolean NOT NULL, job_data bytea,
	PRIMARY KEY (sched_name, job_name));
CREATE TABLE triggers (
	sched_name text NOT NULL, trigger_name bigint NOT NULL, job_name bigint NOT NULL, next_fire_time bigint NOT NULL,
	priority int NOT NULL, trigger_state text NOT NULL, trigger_type text NOT NULL, start_time bigint NOT NULL, misfire_instr int NOT NULL,
	PRIMARY KEY (sched_name, trigger_name),
	FOREIGN KEY (sched_name, job_name) REFERENCES job_details (sched_name, job_name));
CREATE INDEX triggers_next ON triggers (sched_name, trigger_state, next_fire_time);
CREATE TABLE fired_triggers (
	sched_name text NOT NULL, entry_id bigint NOT NULL, trigger_name bigint NOT NULL, job_name bigint NOT NULL, instance_name text NOT NULL,
	fired_time bigint NOT NULL, sched_time bigint NOT NULL, priority int NOT NULL, state text NOT NULL,
	PRIMARY KEY (sched_name, entry_id));
CREATE SEQUENCE names;
`

const (
	lockSQL         = `SELECT 1 FROM locks WHERE sched_name = $1 AND lock_name = 'TRIGGER_ACCESS' FOR UPDATE`
	insertJobSQL    = `INSERT INTO job_details VALUES ($1, nextval('names'), 'bench', false, $2) RETURNING job_name`
	insertSQL       = `INSERT INTO triggers VALUES ($1, $2, $2, $3, 5, 'WAITING', 'SIMPLE', $3, 0)`
	nextSQL         = `SELECT trigger_name, next_fire_time FROM triggers WHERE sched_name = $1 AND trigger_state = 'WAITING' AND next_fire_time <= $2 ORDER BY next_fire_time LIMIT 1`
	acquireSQL      = `UPDATE triggers SET trigger_state = 'ACQUIRED' WHERE sched_name = $1 AND trigger_name = $2 AND trigger_state = 'WAITING'`
	insertFiredSQL  = `INSERT INTO fired_triggers VALUES ($1, $2, $2, $2, 'bench', $3, $4, 5, 'ACQUIRED')`
	jobSQL          = `SELECT job_data FROM job_details WHERE sched_name = $1 AND job_name = $2`
	executeSQL      = `UPDATE fired_triggers SET state = 'EXECUTING' WHERE sched_name = $1 AND entry_id = $2`
	deleteFiredSQL  = `DELETE FROM fired_triggers WHERE sched_name = $1 AND entry_id = $2`
	deleteSQL       = `DELETE FROM triggers WHERE sched_name = $1 AND trigger_name = $2`
	deleteDetailSQL = `DELETE FROM job_details WHERE sched_name = $1 AND job_name = $2`
)

const (
	partitions = 4
	// A partition whose next trigger is further away than the window is asked again
	// after the poll; a trigger within it is acquired, and fired at its time.
	window = 300 * time.Millisecond
	poll   = 250 * time.Millisecond
)

// RelationalSettings tells what it runs with.
func RelationalSettings() string {
	return fmt.Sprintf("%d partitions, a lock row each; triggers acquired one by one up to %s ahead, polls every %s when none is", partitions, window, poll)
}

func partition(i int) string { return fmt.Sprintf("part-%d", i) }

// counts are the statements made.
type counts struct{ selects, inserts, updates, deletes, commits, empty atomic.Int64 }

func (c *counts) operations() Operations {
	return Operations{
		"select": c.selects.Load(), "insert": c.inserts.Load(), "update": c.updates.Load(), "delete": c.deletes.Load(),
		"commit": c.commits.Load(), "empty_acquire": c.empty.Load(),
	}
}

func prepareRelational(ctx context.Context, c *Config) error {
	conn, err := pgx.Connect(ctx, c.Addr)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, schema)
	for i := 0; i < partitions && err == nil; i++ {
		_, err = conn.Exec(ctx, `INSERT INTO locks VALUES ($1, 'TRIGGER_ACCESS')`, partition(i))
	}
	return errors.Join(err, conn.Close(ctx))
}

func relationalSender(ctx context.Context, c *Config) (*sender, error) {
	p, err := pool(ctx, c)
	if err != nil {
		return nil, err
	}
	n := &counts{}
	return &sender{
		send: func(ctx context.Context, due time.Time, payload []byte) error {
			name := partition(rand.IntN(partitions)) //nolint:gosec // a load, not a secret.
			return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, lockSQL, name); err != nil {
					return fmt.Errorf("lock: %w", err)
				}
				n.selects.Add(1)
				var id int64
				if err := tx.QueryRow(ctx, insertJobSQL, name, payload).Scan(&id); err != nil {
					return fmt.Errorf("insert job: %w", err)
				}
				if _, err := tx.Exec(ctx, insertSQL, name, id, due.UnixMilli()); err != nil {
					return fmt.Errorf("insert trigger: %w", err)
				}
				n.inserts.Add(2)
				n.commits.Add(1)
				return nil
			})
		},
		operations: n.operations,
		close: func() error {
			p.Close()
			return nil
		},
	}, nil
}

// quartz is one scheduler instance with a thread pool.
type quartz struct {
	pool  *pgxpool.Pool
	n     counts
	start func([]byte)
	slots chan struct{}
	jobs  sync.WaitGroup
	fault func(error)
}

func relationalRunner(ctx context.Context, c *Config, start func([]byte)) (*runner, error) {
	p, err := pool(ctx, c)
	if err != nil {
		return nil, err
	}
	log := warnings()
	q := &quartz{pool: p, start: start, slots: make(chan struct{}, handlers), fault: func(err error) { log.Warn("relational", "error", err) }}
	ctx, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for i := range partitions {
		loops.Go(func() { q.scan(ctx, partition(i)) })
	}
	return &runner{operations: q.n.operations, close: func() error {
		stop()
		loops.Wait()
		q.jobs.Wait()
		p.Close()
		return nil
	}}, nil
}

// scan acquires a partition's triggers and hands each to the pool.
func (q *quartz) scan(ctx context.Context, name string) {
	for ctx.Err() == nil {
		id, due, err := q.acquire(context.WithoutCancel(ctx), name)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			q.n.empty.Add(1)
			_ = load.Pause(ctx, poll)
			continue
		case err != nil:
			q.fault(err)
			_ = load.Pause(ctx, poll)
			continue
		}
		q.slots <- struct{}{}
		q.jobs.Go(func() {
			defer func() { <-q.slots }()
			_ = load.Pause(context.WithoutCancel(ctx), time.Until(due))
			if err := q.execute(context.WithoutCancel(ctx), name, id); err != nil {
				q.fault(err)
			}
		})
	}
}

// acquire takes the next trigger within the window; pgx.ErrNoRows if there is
// none.
func (q *quartz) acquire(ctx context.Context, name string) (id int64, due time.Time, err error) {
	err = pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		now := time.Now()
		if _, err := tx.Exec(ctx, lockSQL, name); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		q.n.selects.Add(2)
		var at int64
		if err := tx.QueryRow(ctx, nextSQL, name, now.Add(window).UnixMilli()).Scan(&id, &at); err != nil {
			return fmt.Errorf("next trigger: %w", err)
		}
		due = time.UnixMilli(at)
		if _, err := tx.Exec(ctx, acquireSQL, name, id); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if _, err := tx.Exec(ctx, insertFiredSQL, name, id, now.UnixMilli(), at); err != nil {
			return fmt.Errorf("insert fired: %w", err)
		}
		q.n.updates.Add(1)
		q.n.inserts.Add(1)
		q.n.commits.Add(1)
		return nil
	})
	return id, due, err
}

// execute fires and completes a trigger.
func (q *quartz) execute(ctx context.Context, name string, id int64) error {
	var payload []byte
	if err := pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, jobSQL, name, id).Scan(&payload); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		if _, err := tx.Exec(ctx, executeSQL, name, id); err != nil {
			return fmt.Errorf("fire: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	q.n.selects.Add(1)
	q.n.updates.Add(1)
	q.start(payload)
	if err := pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{deleteFiredSQL, deleteSQL, deleteDetailSQL} {
			if _, err := tx.Exec(ctx, sql, name, id); err != nil {
				return fmt.Errorf("complete: %w", err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	q.n.deletes.Add(3)
	q.n.commits.Add(2)
	return nil
}
