package role_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/role"
)

func TestAChildTellsThatItIsReadyAndWhatItFound(t *testing.T) {
	in, parent := io.Pipe()
	var out strings.Builder
	err := role.Serve(in, &out, func(ctx context.Context, ready func()) (any, error) {
		ready()
		require.NoError(t, parent.Close())
		<-ctx.Done() // ends with its standard input
		return map[string]int{"jobs": 3}, nil
	})
	require.NoError(t, err)
	require.Equal(t, "bench-peers ready\nbench-peers result {\"jobs\":3}\n", out.String())
}

func TestAChildThatFailsHasNoResult(t *testing.T) {
	var out strings.Builder
	cause := errors.New("no store")
	err := role.Serve(strings.NewReader(""), &out, func(context.Context, func()) (any, error) { return nil, cause })
	require.ErrorIs(t, err, cause)
	require.Empty(t, out.String())
}
