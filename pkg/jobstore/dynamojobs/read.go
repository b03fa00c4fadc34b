package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// instant is a time in an expression.
func instant(t time.Time) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: string(millis(t))}
}

// jobReads bounds how often a job is read whose two items a write lay between.
const jobReads = 5

// Job implements [jobstore.Store]: one BatchGetItem of the job's two items.
func (s *Store) Job(ctx context.Context, id trigger.ID) (job.Job, error) {
	for try := 1; ; try++ {
		items, err := s.getAll(ctx, "job", s.o.Jobs, []key{defKey(id), nowKey(id)}, true)
		if err != nil {
			return job.Job{}, fmt.Errorf("read job %s: %w", id, err)
		}
		var def defWire
		var now nowWire
		defItem, nowItem := items[defKey(id)], items[nowKey(id)]
		if defItem == nil && nowItem == nil {
			return job.Job{}, fmt.Errorf("job %s: %w", id, jobstore.ErrNotFound)
		}
		if err := errors.Join(decode(defItem, &def), decode(nowItem, &now)); err != nil {
			return job.Job{}, fmt.Errorf("read job %s: %w", id, err)
		}
		if defItem != nil && nowItem != nil && def.Version == now.Version {
			j, err := readJob(id, &def, &now)
			if err != nil {
				return job.Job{}, fmt.Errorf("read job %s: %w", id, err)
			}
			return j, nil
		}
		if try >= jobReads || !wait(ctx, try) {
			if defItem == nil || nowItem == nil { // its time to live took one of the two
				return job.Job{}, fmt.Errorf("job %s: %w", id, jobstore.ErrNotFound)
			}
			return job.Job{}, fmt.Errorf("read job %s: %w: its definition has version %d, its status %d", id, jobstore.ErrBusy, def.Version, now.Version)
		}
	}
}

// Run implements [jobstore.Store].
func (s *Store) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	k, err := runKey(id)
	if err != nil {
		return job.Run{}, fmt.Errorf("%w: %w", err, jobstore.ErrNotFound)
	}
	it, err := s.get(ctx, "run", s.o.Runs, k)
	if err != nil {
		return job.Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	r, err := readRun(it)
	if err != nil {
		return job.Run{}, fmt.Errorf("read run %s: %w", id, err)
	}
	return r, nil
}

// Idempotency implements [jobstore.Store].
func (s *Store) Idempotency(ctx context.Context, tenant, k string) (jobstore.Idempotency, error) {
	it, err := s.get(ctx, "idempotency", s.o.Jobs, idempotencyKey(tenant, k))
	if err != nil {
		return jobstore.Idempotency{}, fmt.Errorf("idempotency key: %w", err)
	}
	i, err := readIdempotency(it)
	if err != nil {
		return jobstore.Idempotency{}, fmt.Errorf("idempotency key: %w", err)
	}
	if !i.Expires.After(s.o.Now()) {
		return jobstore.Idempotency{}, fmt.Errorf("idempotency key: %w", jobstore.ErrNotFound)
	}
	return i, nil
}

// get reads one item, strongly consistent; ErrNotFound.
func (s *Store) get(ctx context.Context, op, table string, k key) (attributes, error) {
	out, err := s.o.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &table, Key: k.attributes(), ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: s.capacity(),
	})
	if err != nil {
		s.meterRead(op)
		return nil, fmt.Errorf("read: %w", err)
	}
	s.meterRead(op, listOf(out.ConsumedCapacity)...)
	if len(out.Item) == 0 {
		return nil, jobstore.ErrNotFound
	}
	return out.Item, nil
}

// maxBatch is how many items one BatchGetItem takes; batchReads bounds how often
// what an answer left out is asked for.
const (
	maxBatch   = 100
	batchReads = 20
)

// getAll reads up to maxBatch items of a table.
func (s *Store) getAll(ctx context.Context, op, table string, keys []key, consistent bool) (map[key]attributes, error) {
	found := make(map[key]attributes, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	ask := make([]attributes, len(keys))
	for i, k := range keys {
		ask[i] = k.attributes()
	}
	want := map[string]types.KeysAndAttributes{table: {Keys: ask, ConsistentRead: &consistent}}
	for try := 1; ; try++ {
		out, err := s.o.Client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: want, ReturnConsumedCapacity: s.capacity()})
		if err != nil {
			s.meterRead(op)
			return nil, fmt.Errorf("read items: %w", err)
		}
		s.meterRead(op, out.ConsumedCapacity...)
		for _, it := range out.Responses[table] {
			found[keyOf(it)] = it
		}
		if len(out.UnprocessedKeys[table].Keys) == 0 {
			return found, nil
		}
		// An answer that has items was full; one that has none was throttled.
		if len(out.Responses[table]) == 0 && (try >= batchReads || !wait(ctx, try)) {
			return nil, fmt.Errorf("read items: %w", errors.Join(jobstore.ErrBusy, ctx.Err()))
		}
		want = out.UnprocessedKeys
	}
}
