package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// action is one item of a write, and whose condition it carries.
type action struct {
	part  jobstore.Part
	index int
	item  types.TransactWriteItem
}

const (
	ifAbsent  = "attribute_not_exists(" + attrP + ")"
	ifVersion = attrVersion + " = :version"
	ifSeq     = attrSeq + " = :seq"
	ifExpired = "attribute_not_exists(" + attrEnds + ") OR " + attrEnds + " <= :now" // or not there
)

// Commit implements [jobstore.Store]: one request, of a single write where the
// Tx is one item.
//
// State before: as each part's condition has it. State after: all of it. The
// loser sees a *ConflictError of the first part whose condition failed.
func (s *Store) Commit(ctx context.Context, tx jobstore.Tx) error {
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("dynamojobs: %w", err)
	}
	actions, err := s.actions(&tx)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return s.write(ctx, "commit", actions)
}

func (s *Store) actions(tx *jobstore.Tx) ([]action, error) {
	list := make([]action, 0, tx.Parts())
	var errs []error
	add := func(part jobstore.Part, index int, item types.TransactWriteItem, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %d: %w", part, index, err))
		}
		list = append(list, action{part, index, item})
	}
	putJob := func(j *job.Job, seq int64, condition string, values attributes) {
		items, err := s.jobItems(j, seq)
		add(jobstore.PartJob, 0, s.put(s.o.Jobs, items[1], condition, values), err)
		add(jobstore.PartJob, 0, s.put(s.o.Jobs, items[0], "", nil), nil)
		add(jobstore.PartJob, 0, s.put(s.o.Jobs, items[2], "", nil), nil)
	}
	if tx.Create != nil {
		j := *tx.Create
		j.Version = 1
		putJob(&j, 1, ifAbsent, nil)
	}
	if tx.Edit != nil {
		putJob(tx.Edit, tx.Edit.Seq+1, ifSeq, attributes{":seq": num(tx.Edit.Seq)})
	}
	if tx.Progress != nil {
		add(jobstore.PartJob, 0, s.progress(tx.Progress), nil)
	}
	if tx.Guard != nil {
		add(jobstore.PartGuard, 0, s.guard(tx.Guard), nil)
	}
	for i := range tx.Runs {
		r := &tx.Runs[i]
		item, err := s.runItem(r, r.Version+1)
		condition, values := versionIs(r.Version)
		add(jobstore.PartRun, i, s.put(s.o.Runs, item, condition, values), err)
	}
	for i, row := range tx.Triggers {
		if s.o.Triggers == nil {
			return nil, errors.New("there is no table of triggers (Options.Triggers)")
		}
		item, err := s.o.Triggers.InsertItem(row)
		add(jobstore.PartTrigger, i, item, err)
	}
	if tx.Idempotency != nil {
		item, err := idempotencyItem(tx.Idempotency)
		add(jobstore.PartIdempotency, 0, s.put(s.o.Jobs, item, ifExpired, attributes{":now": instant(s.o.Now())}), err)
	}
	for i := range tx.Audit {
		item, err := auditItem(&tx.Audit[i])
		add(jobstore.PartRecord, i, s.put(s.o.Jobs, item, "", nil), err)
	}
	return list, errors.Join(errs...)
}

// versionIs is the condition of what carries a version; 0: it is not there yet.
func versionIs(version int64) (string, attributes) {
	if version == 0 {
		return ifAbsent, nil
	}
	return ifVersion, attributes{":version": num(version)}
}

func (s *Store) put(table string, it attributes, condition string, values attributes) types.TransactWriteItem {
	put := &types.Put{TableName: &table, Item: it, ExpressionAttributeValues: values}
	if condition != "" {
		put.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: put}
}

// progress sets what [job.Progress] has, and leaves the rest of the item.
func (s *Store) progress(w *jobstore.ProgressWrite) types.TransactWriteItem {
	now := nowOf(&job.Job{ID: w.Job, Progress: w.Progress}, w.Seq+1)
	sets := []string{attrSeq + " = :next"}
	values := attributes{":seq": num(w.Seq), ":next": num(now.Seq)}
	var removes []string
	set := func(attr string, value types.AttributeValue, empty bool) {
		if empty {
			removes = append(removes, attr)
			return
		}
		sets = append(sets, attr+" = :"+attr)
		values[":"+attr] = value
	}
	for attr, n := range map[string]number{attrPending: now.Pending, attrPrevious: now.Previous, attrWake: now.Wake} {
		set(attr, &types.AttributeValueMemberN{Value: string(n)}, n == "")
	}
	for attr, text := range map[string]string{attrActive: string(now.Active), attrWaiting: string(now.Waiting), attrShard: now.Shard} {
		set(attr, str(text), text == "")
	}
	update := "SET " + strings.Join(sets, ", ")
	if len(removes) > 0 {
		update += " REMOVE " + strings.Join(removes, ", ")
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.o.Jobs, Key: nowKey(w.Job).attributes(), UpdateExpression: &update,
		ConditionExpression: aws.String(ifSeq), ExpressionAttributeValues: values,
	}}
}

func (s *Store) guard(g *jobstore.Guard) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.o.Jobs, Key: nowKey(g.Job).attributes(),
		ConditionExpression:       aws.String(attrStatus + " = :active AND " + attrGeneration + " = :generation"),
		ExpressionAttributeValues: attributes{":active": str(string(job.JobIsActive)), ":generation": num(g.Generation)},
	}}
}
