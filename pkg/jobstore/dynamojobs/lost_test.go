package dynamojobs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
)

// lossy loses the reply to the first transaction and the first put.
type lossy struct {
	dynamojobs.API
	transactions, puts int
}

var errLost = errors.New("reply lost")

func (l *lossy) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := l.API.TransactWriteItems(ctx, in, o...)
	if l.transactions++; l.transactions == 1 && err == nil {
		return nil, errLost
	}
	return out, err
}

func (l *lossy) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := l.API.PutItem(ctx, in, o...)
	if l.puts++; l.puts == 1 && err == nil {
		return nil, errLost
	}
	return out, err
}

// kumo keeps no tokens: there the repeat would meet its own first try.
func TestALostReplyIsMadeGoodOnMinistack(t *testing.T) {
	w := openAt(t, ministack(t))
	api := &lossy{API: w.client}
	w.opts.Client = api
	s, err := dynamojobs.New(w.opts)
	require.NoError(t, err)
	j := aJob()
	require.NoError(t, s.Commit(t.Context(), jobstore.Tx{Create: j}), "the repeat knows its token")
	require.Equal(t, 2, api.transactions)
	conflictOn(t, s.Commit(t.Context(), jobstore.Tx{Create: j}), jobstore.PartJob, 0)
}

func TestALostReplyToASinglePutLeavesItsCallerToRead(t *testing.T) {
	w := open(t)
	api := &lossy{API: w.client}
	w.opts.Client = api
	s, err := dynamojobs.New(w.opts)
	require.NoError(t, err)
	r := job.NewRun(aJob().ID, 1, created)
	err = s.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{r}})
	require.ErrorIs(t, err, errLost)
	require.Equal(t, 1, api.puts)
	got, err := s.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Version)
}
