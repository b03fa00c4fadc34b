package dynamojobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// script answers each request with the next error.
type script struct {
	API
	errs   []error
	tokens []string
	puts   int
	reads  []*dynamodb.BatchGetItemOutput
	asked  []map[string]types.KeysAndAttributes
}

func (s *script) next() error {
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	if len(s.errs) > 1 { // the last one stays
		s.errs = s.errs[1:]
	}
	return err
}

func (s *script) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	s.puts++
	return &dynamodb.PutItemOutput{}, s.next()
}

func (s *script) TransactWriteItems(_ context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	s.tokens = append(s.tokens, *in.ClientRequestToken)
	return &dynamodb.TransactWriteItemsOutput{}, s.next()
}

func (s *script) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	s.asked = append(s.asked, in.RequestItems)
	out := s.reads[0]
	s.reads = s.reads[1:]
	return out, nil
}

func (s *script) store(t *testing.T) *Store {
	t.Helper()
	st, err := New(Options{Client: s, Jobs: "jobs", Runs: "runs", MaxTries: 4})
	require.NoError(t, err)
	return st
}

func cancelled(codes ...string) error {
	err := &types.TransactionCanceledException{}
	for _, code := range codes {
		err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return err
}

func api(code, message string) error { return &smithy.GenericAPIError{Code: code, Message: message} }

func runs(n int) (tx jobstore.Tx) {
	for i := range n {
		tx.Runs = append(tx.Runs, job.NewRun(anID(1), 1, time.UnixMilli(int64(i))))
	}
	return tx
}

func TestABusyTableIsTriedAgainAndThenSaidToBeBusy(t *testing.T) {
	for name, err := range map[string]error{
		"throttled":            &types.ProvisionedThroughputExceededException{},
		"throttled by name":    api("ThrottlingException", ""),
		"another transaction":  cancelled("None", "TransactionConflict"),
		"throttled inside one": cancelled("ThrottlingError", "None"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				once := &script{errs: []error{err, nil}}
				require.NoError(t, once.store(t).Commit(t.Context(), runs(2)))
				require.Len(t, once.tokens, 2)
				require.Equal(t, once.tokens[0], once.tokens[1], "a repeat is harmless under its token")
				always := &script{errs: []error{err}}
				start := time.Now()
				require.ErrorIs(t, always.store(t).Commit(t.Context(), runs(2)), jobstore.ErrBusy)
				require.Len(t, always.tokens, 4)
				require.LessOrEqual(t, time.Since(start), 7*firstWait)
				require.Positive(t, time.Since(start))
			})
		})
	}
}

func TestAnUnknownOutcomeIsNeverCalledBusyOrAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("connection reset")
		single := &script{errs: []error{lost}}
		err := single.store(t).Commit(t.Context(), runs(1))
		require.ErrorIs(t, err, lost)
		require.NotErrorIs(t, err, jobstore.ErrBusy)
		require.Equal(t, 1, single.puts, "a repeat might meet its own first try")

		both := &script{errs: []error{lost, nil}}
		require.NoError(t, both.store(t).Commit(t.Context(), runs(2)))
		require.Equal(t, both.tokens[0], both.tokens[1])

		then := &script{errs: []error{lost, cancelled("TransactionConflict")}}
		err = then.store(t).Commit(t.Context(), runs(2))
		require.Error(t, err)
		require.NotErrorIs(t, err, jobstore.ErrBusy)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := &script{errs: []error{ctx.Err()}}
		require.ErrorIs(t, ended.store(t).Commit(ctx, runs(2)), context.Canceled)
		require.Len(t, ended.tokens, 1)
	})
}

func TestAFailedConditionGoesBeforeEverythingElse(t *testing.T) {
	s := &script{errs: []error{cancelled("TransactionConflict", "ConditionalCheckFailed", "ConditionalCheckFailed")}}
	var c *jobstore.ConflictError
	require.ErrorAs(t, s.store(t).Commit(t.Context(), runs(3)), &c)
	require.Equal(t, jobstore.ConflictError{Part: jobstore.PartRun, Index: 1}, *c)
	require.Len(t, s.tokens, 1)
}

func TestWhatTheTableRefusesIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{api("ValidationException", "Item size has exceeded the maximum allowed size"), jobstore.ErrTooLarge},
		{api("ValidationException", "Item size to update has exceeded the maximum allowed size"), jobstore.ErrTooLarge},
		{api("ValidationException", "One or more parameter values were invalid"), nil},
		{api("AccessDeniedException", "no"), nil},
		{cancelled("None", "ValidationError"), nil},
	} {
		s := &script{errs: []error{c.err}}
		err := s.store(t).Commit(t.Context(), runs(2))
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.want != nil, errors.Is(err, jobstore.ErrTooLarge), "%v", c.err)
		require.NotErrorIs(t, err, jobstore.ErrBusy)
		require.Len(t, s.tokens, 1)
	}
}

// read is an answer with some of a job's items in some versions.
func read(t *testing.T, s *Store, j job.Job, versions ...int64) *dynamodb.BatchGetItemOutput {
	t.Helper()
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]map[string]types.AttributeValue{}}
	for i, v := range versions {
		j.Version = v
		items, err := s.jobItems(&j, 1)
		require.NoError(t, err)
		out.Responses["jobs"] = append(out.Responses["jobs"], items[i])
	}
	return out
}

func TestAJobThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{}
		s := sc.store(t)
		j := filled[job.Job]()
		sc.reads = []*dynamodb.BatchGetItemOutput{read(t, s, j, 1, 2), read(t, s, j, 1), read(t, s, j, 2, 2)}
		got, err := s.Job(t.Context(), j.ID)
		require.NoError(t, err)
		require.EqualValues(t, 2, got.Version)

		sc.reads = nil
		for range jobReads {
			sc.reads = append(sc.reads, read(t, s, j, 1, 2))
		}
		_, err = s.Job(t.Context(), j.ID)
		require.ErrorIs(t, err, jobstore.ErrBusy)
		require.Empty(t, sc.reads)

		for range jobReads {
			sc.reads = append(sc.reads, read(t, s, j, 1))
		}
		_, err = s.Job(t.Context(), j.ID)
		require.ErrorIs(t, err, jobstore.ErrNotFound, "what is half gone by its time to live is gone")
	})
}

func TestWhatAnAnswerLeftOutIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{}
		s := sc.store(t)
		j := filled[job.Job]()
		whole := read(t, s, j, 1, 1)
		left := map[string]types.KeysAndAttributes{"jobs": {Keys: []map[string]types.AttributeValue{nowKey(j.ID).attributes()}}}
		throttled := &dynamodb.BatchGetItemOutput{UnprocessedKeys: map[string]types.KeysAndAttributes{"jobs": {Keys: []map[string]types.AttributeValue{
			defKey(j.ID).attributes(), nowKey(j.ID).attributes(),
		}}}}
		first, second := *whole, *whole
		first.Responses = map[string][]map[string]types.AttributeValue{"jobs": whole.Responses["jobs"][:1]}
		first.UnprocessedKeys = left
		second.Responses = map[string][]map[string]types.AttributeValue{"jobs": whole.Responses["jobs"][1:]}
		sc.reads = []*dynamodb.BatchGetItemOutput{throttled, &first, &second}
		got, err := s.Job(t.Context(), j.ID)
		require.NoError(t, err)
		require.Equal(t, j.Payload, got.Payload)
		require.Equal(t, left, sc.asked[2])

		sc.reads = nil
		for range batchReads {
			sc.reads = append(sc.reads, throttled)
		}
		_, err = s.Job(t.Context(), j.ID)
		require.ErrorIs(t, err, jobstore.ErrBusy)
	})
}
