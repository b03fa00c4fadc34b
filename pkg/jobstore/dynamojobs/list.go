package dynamojobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// What a page may cost at most: the limit of a list, and how many items are
// evaluated where a filter leaves most of them out.
const (
	maxLimit  = 100
	evaluated = 1000
)

// page is a list to read: newest first, from a place on.
type page struct {
	op        string
	query     query
	in        dynamodb.QueryInput
	filtered  bool
	cursor    string
	limit     int
	partition string // of the table; empty: of an index, whose places have their own
	tenant    string // of the dead letters' index
}

// read returns up to the limit of items and the cursor after them.
func (s *Store) read(ctx context.Context, p page) ([]attributes, string, error) {
	if p.limit < 1 || p.limit > maxLimit {
		return nil, "", fmt.Errorf("list %s: limit %d; want 1 to %d", p.op, p.limit, maxLimit)
	}
	at, err := p.query.place(p.cursor)
	if err != nil {
		return nil, "", err
	}
	in := p.in
	in.ScanIndexForward, in.ReturnConsumedCapacity = aws.Bool(false), s.capacity()
	if at != nil {
		in.ExclusiveStartKey = p.start(at)
	}
	var items []attributes
	for left := evaluated; ; {
		// With a filter a whole page is evaluated at once: fewer requests for what
		// it leaves out.
		n := p.limit - len(items)
		if p.filtered {
			n = min(maxLimit, left)
		}
		in.Limit = aws.Int32(int32(n))
		out, err := s.o.Client.Query(ctx, &in)
		if err != nil {
			s.meterRead(p.op)
			return nil, "", fmt.Errorf("list %s: %w", p.op, err)
		}
		s.meterRead(p.op, listOf(out.ConsumedCapacity)...)
		items = append(items, out.Items...)
		left -= n
		switch {
		case len(items) > p.limit, len(items) == p.limit && len(out.LastEvaluatedKey) > 0:
			items = items[:p.limit]
			return items, p.query.cursor(placeOf(items[p.limit-1])), nil
		case len(out.LastEvaluatedKey) == 0:
			return items, "", nil
		case left <= 0:
			return items, p.query.cursor(placeOf(out.LastEvaluatedKey)), nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (p *page) start(at *place) attributes {
	if p.partition != "" {
		return key{p.partition, at.S}.attributes()
	}
	it := key{at.P, at.S}.attributes()
	it[attrDead], it[attrDied] = str(p.tenant), &types.AttributeValueMemberN{Value: at.Died}
	return it
}

func placeOf(it attributes) place {
	k := keyOf(it)
	at := place{S: k.s}
	if died, ok := it[attrDied].(*types.AttributeValueMemberN); ok {
		at.P, at.Died = k.p, died.Value
	}
	return at
}

// Jobs implements [jobstore.Store]: a Query of the list items, and a BatchGetItem
// of how far the jobs have come.
func (s *Store) Jobs(ctx context.Context, q jobstore.JobQuery) (jobstore.Page[job.Job], error) {
	var none jobstore.Page[job.Job]
	p := page{
		op: "jobs", query: query{"jobs", q.Tenant, string(q.Status), q.Label}, filtered: true, cursor: q.Cursor, limit: q.Limit,
		partition: name{kind: kindTenant, tenant: q.Tenant}.key().p,
	}
	values := attributes{":p": str(p.partition), ":list": str("J#")}
	names := map[string]string{}
	filter := attrStatus + " = :status"
	values[":status"] = str(string(q.Status))
	if q.Status == "" {
		filter = attrStatus + " <> :status"
		values[":status"] = str(string(job.JobIsDeleted))
	}
	if label, value, valued := strings.Cut(q.Label, "="); label != "" {
		names["#label"] = label
		if valued {
			filter += " AND " + attrLabels + ".#label = :label"
			values[":label"] = str(value)
		} else {
			filter += " AND attribute_exists(" + attrLabels + ".#label)"
		}
	}
	p.in = dynamodb.QueryInput{
		TableName: &s.o.Jobs, KeyConditionExpression: aws.String("p = :p AND begins_with(s, :list)"),
		FilterExpression: &filter, ExpressionAttributeValues: values,
	}
	if len(names) > 0 {
		p.in.ExpressionAttributeNames = names
	}
	items, next, err := s.read(ctx, p)
	if err != nil {
		return none, err
	}
	jobs := make([]job.Job, len(items))
	keys := make([]key, len(items))
	for i, it := range items {
		if jobs[i], err = readListed(it); err != nil {
			return none, fmt.Errorf("list jobs: %w", err)
		}
		keys[i] = nowKey(jobs[i].ID)
	}
	found, err := s.getAll(ctx, "jobs", s.o.Jobs, keys, false)
	if err != nil {
		return none, fmt.Errorf("list jobs: %w", err)
	}
	for i := range jobs {
		var now nowWire
		var r reader
		if err := decode(found[keys[i]], &now); err != nil {
			return none, fmt.Errorf("list jobs: %s: %w", jobs[i].ID, err)
		}
		if jobs[i].Progress = now.progress(&r); r.err() != nil {
			return none, fmt.Errorf("list jobs: %s: %w", jobs[i].ID, r.err())
		}
	}
	return jobstore.Page[job.Job]{Items: jobs, Next: next}, nil
}

// listedAttrs are the attributes that a list of runs reads: everything but payloads.
func listedAttrs() []string {
	return []string{
		"p", "s", "o", "te", "k", "g", "n", "st", "a", "f", "c", "l", "nb", "ok", "cr", "r", "al", "sk", "e", "rd", "ur", "df", "ca", "ve", "t",
	}
}

// Runs implements [jobstore.Store]: one Query, of more where a filter leaves most
// of it out.
func (s *Store) Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error) {
	p := page{
		op: "runs", query: query{"runs", q.Job.String(), string(q.State)}, cursor: q.Cursor, limit: q.Limit, partition: q.Job.String(),
	}
	names := map[string]string{}
	project := listedAttrs()
	for i, attr := range project {
		project[i] = "#" + attr
		names[project[i]] = attr
	}
	p.in = dynamodb.QueryInput{
		TableName: &s.o.Runs, KeyConditionExpression: aws.String("#p = :p"), ProjectionExpression: aws.String(strings.Join(project, ", ")),
		ExpressionAttributeNames: names, ExpressionAttributeValues: attributes{":p": str(p.partition)},
	}
	if q.State != "" {
		p.filtered = true
		p.in.FilterExpression = aws.String("#st = :state")
		p.in.ExpressionAttributeValues[":state"] = str(string(q.State))
	}
	return pageOf(readRun)(s.read(ctx, p))
}

// pageOf reads the items of a page.
func pageOf[T any](read func(attributes) (T, error)) func([]attributes, string, error) (jobstore.Page[T], error) {
	return func(items []attributes, next string, err error) (jobstore.Page[T], error) {
		if err != nil {
			return jobstore.Page[T]{}, err
		}
		list := make([]T, len(items))
		for i, it := range items {
			if list[i], err = read(it); err != nil {
				return jobstore.Page[T]{}, fmt.Errorf("list: %w", err)
			}
		}
		return jobstore.Page[T]{Items: list, Next: next}, nil
	}
}

// Audit implements [jobstore.Store].
func (s *Store) Audit(ctx context.Context, tenant, cursor string, limit int) (jobstore.Page[jobstore.AuditRecord], error) {
	p := page{
		op: "audit", query: query{"audit", tenant}, cursor: cursor, limit: limit,
		partition: name{kind: kindAudit, tenant: tenant}.key().p,
	}
	p.in = dynamodb.QueryInput{
		TableName: &s.o.Jobs, KeyConditionExpression: aws.String("p = :p"),
		ExpressionAttributeValues: attributes{":p": str(p.partition)},
	}
	return pageOf(readAudit)(s.read(ctx, p))
}

// Dead implements [jobstore.Store]: a Query of the index, and a BatchGetItem of
// the runs it names. From and Until are included.
func (s *Store) Dead(ctx context.Context, q jobstore.DeadQuery) (jobstore.Page[job.Run], error) {
	var none jobstore.Page[job.Run]
	p := page{
		op: "dead", query: query{"dead", q.Tenant, q.Job.String(), string(millis(q.From)), string(millis(q.Until))},
		cursor: q.Cursor, limit: q.Limit, tenant: q.Tenant,
	}
	condition := attrDead + " = :d"
	values := attributes{":d": str(q.Tenant)}
	switch from, until := !q.From.IsZero(), !q.Until.IsZero(); {
	case from && until && q.Until.Before(q.From):
		return none, nil
	case from && until:
		condition += " AND " + attrDied + " BETWEEN :from AND :until"
	case from:
		condition += " AND " + attrDied + " >= :from"
	case until:
		condition += " AND " + attrDied + " <= :until"
	}
	if !q.From.IsZero() {
		values[":from"] = instant(q.From)
	}
	if !q.Until.IsZero() {
		values[":until"] = instant(q.Until)
	}
	p.in = dynamodb.QueryInput{TableName: &s.o.Runs, IndexName: aws.String(deadIndex), ExpressionAttributeValues: values}
	if !q.Job.IsZero() {
		p.filtered = true
		p.in.FilterExpression = aws.String(attrP + " = :job")
		values[":job"] = str(q.Job.String())
	}
	p.in.KeyConditionExpression = &condition
	items, next, err := s.read(ctx, p)
	if err != nil {
		return none, err
	}
	keys := make([]key, len(items))
	for i, it := range items {
		keys[i] = keyOf(it)
	}
	found, err := s.getAll(ctx, "dead", s.o.Runs, keys, false)
	if err != nil {
		return none, fmt.Errorf("list dead: %w", err)
	}
	list := jobstore.Page[job.Run]{Next: next}
	for _, k := range keys {
		it := found[k]
		if it == nil || it[attrDead] == nil {
			continue // gone or redriven since: the index is behind
		}
		r, err := readRun(it)
		if err != nil {
			return none, fmt.Errorf("list dead: %w", err)
		}
		list.Items = append(list.Items, r)
	}
	return list, nil
}

// Due implements [jobstore.Store]: a Query of each table's index.
func (s *Store) Due(ctx context.Context, shard int, before time.Time, limit int) ([]jobstore.Wake, error) {
	if shard < 0 || shard >= jobstore.Wakes || limit < 1 {
		return nil, fmt.Errorf("due: shard %d, limit %d; want 0 to %d, and 1 or more", shard, limit, jobstore.Wakes-1)
	}
	var all []jobstore.Wake
	for _, table := range []string{s.o.Jobs, s.o.Runs} {
		in := &dynamodb.QueryInput{
			TableName: &table, IndexName: aws.String(wakeIndex), KeyConditionExpression: aws.String(attrShard + " = :w AND " + attrWake + " < :t"),
			ExpressionAttributeValues: attributes{":w": str(shardName(shard)), ":t": instant(before)},
			Limit:                     aws.Int32(int32(min(limit, evaluated))),
			ReturnConsumedCapacity:    s.capacity(),
		}
		out, err := s.o.Client.Query(ctx, in)
		if err != nil {
			s.meterRead("due")
			return nil, fmt.Errorf("due: %w", err)
		}
		s.meterRead("due", listOf(out.ConsumedCapacity)...)
		for _, it := range out.Items {
			w, err := s.wake(table, it)
			if err != nil {
				return nil, fmt.Errorf("due: %w", err)
			}
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b jobstore.Wake) int { return a.At.Compare(b.At) })
	return all[:min(len(all), limit)], nil
}

func (s *Store) wake(table string, it attributes) (w jobstore.Wake, err error) {
	if table == s.o.Runs {
		w.Run, w.Job, err = parseRun(keyOf(it))
	} else {
		var n name
		n, err = parse(keyOf(it))
		w.Job = n.job
	}
	if err != nil {
		return w, err
	}
	if n, ok := it[attrWake].(*types.AttributeValueMemberN); ok {
		w.At, err = parseMillis(number(n.Value))
	}
	return w, err
}
