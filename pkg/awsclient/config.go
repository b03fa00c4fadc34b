// Package awsclient owns how Myosin talks to AWS: the SDK configuration, what is
// observed of every attempt, and the one classification of errors.
//
// It makes no service clients and refuses to know any service's types: errors
// are judged by their codes. Everything may be called concurrently.
package awsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/smithy-go/middleware"
)

// Options configure [Load]. The zero value is usable.
type Options struct {
	// Region; empty: as the SDK finds it (AWS_REGION, profile), else us-east-1.
	Region string
	// Endpoint is the base URL of all services; empty: as the SDK finds it
	// (AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS, profile), else AWS itself.
	Endpoint string
	// MaxAttempts of a call that may be retried. 0: 4.
	MaxAttempts int
	// MaxBackoff between attempts. 0: 3 s.
	MaxBackoff time.Duration
	// IdleConns kept per host. 0: 256.
	IdleConns int
	// DialTimeout of a connection. 0: 3 s.
	DialTimeout time.Duration
	// ResponseTimeout is how long an answer may take to begin; it must exceed
	// the longest poll of 20 s. 0: 30 s.
	ResponseTimeout time.Duration
	// Observe is called with the Date of each answer, and the local times around
	// it: it feeds a clock.Clock. nil: nothing is observed.
	Observe func(date, sent, received time.Time)
	// Now is the local clock that Observe's times are read from: it must be the
	// very one that is corrected by them, since any other may be stepped beside
	// it. nil: time.Now.
	Now func() time.Time
	// Meter is called for every HTTP attempt (attempt true) and once for every
	// call, its attempts and waits included (attempt false). err is nil on
	// success. nil: nothing is metered.
	Meter func(service, operation string, attempt bool, err error, took time.Duration)
}

// Validate reports every field outside its range, joined.
func (o Options) Validate() error {
	var errs []error
	if o.MaxAttempts < 0 || o.IdleConns < 0 {
		errs = append(errs, errors.New("attempts and idle connections: want 0 (the default) or more"))
	}
	if o.MaxBackoff < 0 || o.DialTimeout < 0 {
		errs = append(errs, errors.New("backoff and dial timeout: want 0 (the default) or more"))
	}
	if o.ResponseTimeout != 0 && o.ResponseTimeout <= 20*time.Second {
		errs = append(errs, fmt.Errorf("response timeout %s: a long poll takes 20s; want more", o.ResponseTimeout))
	}
	if o.Endpoint != "" {
		if u, err := url.Parse(o.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("endpoint %q: want http://host:port or https://host:port", o.Endpoint))
		}
	}
	return errors.Join(errs...)
}

// Load returns the SDK's configuration.
//
// With an endpoint outside AWS and no credentials configured, it signs with
// dummies: emulators take any. Otherwise credentials come from the SDK's chain.
func Load(ctx context.Context, o Options) (aws.Config, error) {
	if err := o.Validate(); err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	attempts, backoff := orDefault(o.MaxAttempts, 4), orDefault(o.MaxBackoff, 3*time.Second)
	loads := []func(*config.LoadOptions) error{
		config.WithDefaultRegion("us-east-1"),
		config.WithHTTPClient(httpClient(o)),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(s *retry.StandardOptions) {
				s.MaxAttempts, s.MaxBackoff = attempts, backoff
			})
		}),
	}
	if o.Region != "" {
		loads = append(loads, config.WithRegion(o.Region))
	}
	if o.Endpoint != "" {
		loads = append(loads, config.WithBaseEndpoint(o.Endpoint))
	}
	cfg, err := config.LoadDefaultConfig(ctx, loads...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	if foreign(cfg) && unconfigured(cfg) {
		cfg.Credentials = credentials.NewStaticCredentialsProvider("any", "any", "")
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error { return addHooks(s, now, o.Observe, o.Meter) })
	return cfg, nil
}

// foreign reports whether every service is reached at an address outside AWS.
func foreign(cfg aws.Config) bool {
	if cfg.BaseEndpoint == nil {
		return false
	}
	u, err := url.Parse(*cfg.BaseEndpoint)
	if err != nil {
		return false
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
		if strings.HasSuffix(u.Hostname(), domain) {
			return false
		}
	}
	return true
}

// unconfigured reports whether the SDK's chain found nothing and was left with
// its last resort, the instance's role.
func unconfigured(cfg aws.Config) bool {
	return cfg.Credentials == nil || aws.IsCredentialsProvider(cfg.Credentials, (*ec2rolecreds.Provider)(nil))
}

func httpClient(o Options) *awshttp.BuildableClient {
	idle := orDefault(o.IdleConns, 256)
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) {
			d.Timeout = orDefault(o.DialTimeout, 3*time.Second)
			d.KeepAlive = 30 * time.Second
		}).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns = 4 * idle
			t.MaxIdleConnsPerHost = idle
			t.IdleConnTimeout = 60 * time.Second
			t.TLSHandshakeTimeout = 5 * time.Second
			t.ResponseHeaderTimeout = orDefault(o.ResponseTimeout, 30*time.Second)
			t.WriteBufferSize = 32 << 10
			t.ReadBufferSize = 32 << 10
		})
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
