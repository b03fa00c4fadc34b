package awsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
)

// isolate hides the machine's own AWS configuration.
func isolate(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func load(t *testing.T, o awsclient.Options) aws.Config {
	t.Helper()
	cfg, err := awsclient.Load(t.Context(), o)
	require.NoError(t, err)
	return cfg
}

func TestRegionDefaultsToUSEast1AndTheEnvironmentWins(t *testing.T) {
	isolate(t)
	require.Equal(t, "us-east-1", load(t, awsclient.Options{}).Region)
	t.Setenv("AWS_REGION", "eu-west-1")
	require.Equal(t, "eu-west-1", load(t, awsclient.Options{}).Region)
	require.Equal(t, "ap-south-1", load(t, awsclient.Options{Region: "ap-south-1"}).Region)
}

func TestEmulatorEndpointNeedsNoCredentials(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
	creds, err := load(t, awsclient.Options{}).Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	require.Equal(t, "any", creds.AccessKeyID)
}

func TestConfiguredCredentialsAreUsedWithAnEndpointToo(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDMINE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "mine")
	creds, err := load(t, awsclient.Options{Endpoint: "http://127.0.0.1:4566"}).Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	require.Equal(t, "AKIDMINE", creds.AccessKeyID)
}

func TestNoDummyCredentialsForAWSItself(t *testing.T) {
	isolate(t)
	for _, endpoint := range []string{"", "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com"} {
		_, err := load(t, awsclient.Options{Endpoint: endpoint}).Credentials.Retrieve(t.Context())
		require.Error(t, err)
	}
}

func TestOptionsReportEveryProblemTogether(t *testing.T) {
	err := awsclient.Options{MaxAttempts: -1, ResponseTimeout: 20 * time.Second, Endpoint: "localhost:4566"}.Validate()
	require.ErrorContains(t, err, "attempts")
	require.ErrorContains(t, err, "long poll")
	require.ErrorContains(t, err, "http://host:port")
}

type metered struct {
	service, op string
	attempt     bool
	class       awsclient.Class
}

func TestEveryAttemptIsMeteredAndItsDateObserved(t *testing.T) {
	isolate(t)
	var calls int
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date.Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"com.amazonaws.sqs#RequestThrottled","message":"slow"}`)
			return
		}
		fmt.Fprint(w, `{"QueueUrls":[]}`)
	}))
	defer srv.Close()

	var mu sync.Mutex
	var got []metered
	var dates []time.Time
	ticks, start := 0, time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC) // a clock of its own
	cfg := load(t, awsclient.Options{
		Endpoint: srv.URL, MaxBackoff: time.Millisecond,
		Now: func() time.Time {
			ticks++
			return start.Add(time.Duration(ticks) * time.Second)
		},
		Observe: func(d, sent, received time.Time) {
			dates = append(dates, d)
			require.Equal(t, time.Second, received.Sub(sent))
			require.Equal(t, start.Add(time.Duration(ticks)*time.Second), received)
		},
		Meter: func(service, op string, attempt bool, err error, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, metered{service, op, attempt, awsclient.Classify(err)})
		},
	})
	_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
	require.NoError(t, err)
	require.Equal(t, []metered{
		{"SQS", "ListQueues", true, awsclient.Throttled},
		{"SQS", "ListQueues", true, awsclient.OK},
		{"SQS", "ListQueues", false, awsclient.OK},
	}, got)
	require.Equal(t, []time.Time{date, date}, dates)
}

func TestFlightTellsWhetherAnythingCanHaveBeenSent(t *testing.T) {
	isolate(t)
	hangUp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangUp.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx      context.Context
		endpoint string
		unsent   bool
	}{
		"dial refused":      {t.Context(), closed.URL, true},
		"no such host":      {t.Context(), "http://nowhere.invalid", true},
		"context ended":     {ended, hangUp.URL, true},
		"reset by the peer": {t.Context(), hangUp.URL, false},
	} {
		client := sqs.NewFromConfig(load(t, awsclient.Options{Endpoint: c.endpoint, MaxAttempts: 1}))
		ctx, flight := awsclient.Track(c.ctx)
		_, err := client.ListQueues(ctx, &sqs.ListQueuesInput{})
		require.Error(t, err, name)
		require.Equal(t, c.unsent, flight.Unsent(), "%s: %v", name, err)
	}
}

func TestErrorsAreClassifiedByCode(t *testing.T) {
	for code, want := range map[string]awsclient.Class{
		"ThrottlingException": awsclient.Throttled, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException": awsclient.Throttled,
		"RequestThrottled": awsclient.Throttled, "KmsThrottled": awsclient.Throttled, "ThrottlingError": awsclient.Throttled,
		"AccessDeniedException": awsclient.Denied, "KmsAccessDenied": awsclient.Denied, "ExpiredToken": awsclient.Denied,
		"AWS.SimpleQueueService.NonExistentQueue": awsclient.Missing, "com.amazonaws.sqs#QueueDoesNotExist": awsclient.Missing,
		"ResourceNotFoundException": awsclient.Missing,
		"InvalidMessageContents":    awsclient.Reject, "ValidationException": awsclient.Reject,
		"ConditionalCheckFailed": awsclient.Conflict, "DuplicateItem": awsclient.Conflict,
		"InternalServerError": awsclient.Retry, "NeverHeardOf": awsclient.Retry,
	} {
		require.Equal(t, want, awsclient.ClassOf(code), code)
		err := fmt.Errorf("op: %w", &smithy.GenericAPIError{Code: code})
		require.Equal(t, want, awsclient.Classify(err), code)
	}
	require.Equal(t, awsclient.OK, awsclient.Classify(nil))
	require.Equal(t, awsclient.Canceled, awsclient.Classify(fmt.Errorf("op: %w", context.Canceled)))
	require.Equal(t, awsclient.Retry, awsclient.Classify(errors.New("connection reset")))
	require.Empty(t, awsclient.Code(errors.New("x")))
	require.Equal(t, "QueueDoesNotExist", awsclient.Code(&smithy.GenericAPIError{Code: "com.amazonaws.sqs#QueueDoesNotExist:http://x/"}))
}

// The server answers before it has read the request, which the SDK alone takes
// for a failed write now and then.
func TestAnAnswerFasterThanTheRequestIsNotLost(t *testing.T) {
	isolate(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, `{"QueueUrls":["%s"]}`, strings.Repeat("x", 16<<10))
	}))
	defer srv.Close()
	client := sqs.NewFromConfig(load(t, awsclient.Options{Endpoint: srv.URL, MaxAttempts: 1}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 40 {
				if _, err := client.ListQueues(t.Context(), &sqs.ListQueuesInput{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
