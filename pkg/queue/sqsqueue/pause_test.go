package sqsqueue

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

func TestSettlingPausesOnlyBeforeAnotherRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(aws.Config{
			Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
			HTTPClient: &http.Client{Transport: wire{}},
		}, Options{})
		require.NoError(t, err)
		start := time.Now()
		for _, err := range q.Delete(t.Context(), "https://sqs.us-east-1.amazonaws.com/1/q", slices.Repeat([]string{"r"}, 25)) {
			require.NoError(t, err)
		}
		for _, err := range q.ChangeVisibility(t.Context(), "https://sqs.us-east-1.amazonaws.com/1/q", []queue.Visibility{{Receipt: "r"}}) {
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(start))
	})
}
