// Package registry owns what is known of the owning services: their queues,
// limits, allowed senders and contact. Items are written by Terraform or the
// CLI and read here, cached by [Cache].
//
// It refuses to call a service unknown before a consistent read said so, and to
// forget what it knows because the table cannot be read. Everything here may be
// used concurrently; a [Service] handed out is shared and read only.
package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Service is one owning service.
type Service struct {
	Name           string
	QueueURL       string
	UrgentQueueURL string // empty: urgent triggers go to QueueURL
	DLQURL         string
	// Rate is the most deliveries per second over the whole fleet; 0: no limit.
	Rate float64
	FIFO bool
	// Senders are the SQS SenderIds allowed to submit; empty: everyone who can
	// send to the inbound queue. An entry ending in '*' matches by prefix.
	Senders []string
	Owner   string    // contact of the owning team
	Alert   string    // where the owner is told: SNS topic ARN or webhook URL
	Paused  bool      // submissions are stored, nothing is delivered
	Updated time.Time // when it was last written; set by the source
}

// Validate reports every field at fault, joined; each is a
// [*trigger.FieldError] that names the attribute as Terraform writes it.
func (s *Service) Validate() error {
	var errs []error
	if err := trigger.ValidService(s.Name); err != nil {
		errs = append(errs, bad("name", "%v", err))
	}
	if s.QueueURL == "" {
		errs = append(errs, bad("queue_url", "missing"))
	}
	for _, u := range []struct{ field, url string }{
		{"queue_url", s.QueueURL}, {"urgent_queue_url", s.UrgentQueueURL}, {"dlq_url", s.DLQURL},
	} {
		if u.url != "" && !queueURL(u.url) {
			errs = append(errs, bad(u.field, "%q is not a queue URL such as https://sqs.us-east-1.amazonaws.com/123456789012/name", u.url))
		}
	}
	if s.DLQURL != "" && (s.DLQURL == s.QueueURL || s.DLQURL == s.UrgentQueueURL) {
		errs = append(errs, bad("dlq_url", "is the service's own queue"))
	}
	errs = append(errs, ValidRate(s.Rate))
	for i, sender := range s.Senders {
		if sender == "" || strings.ContainsRune(strings.TrimSuffix(sender, "*"), '*') {
			errs = append(errs, bad("senders["+strconv.Itoa(i)+"]", "%q; want an SQS SenderId, or the start of one and '*'", sender))
		}
	}
	return errors.Join(errs...)
}

// The least and greatest rate, in deliveries per second. DynamoDB numbers have
// 38 digits; nothing outside these is meant.
const (
	MinRate = 1e-6
	MaxRate = 1e9
)

// ValidRate checks a rate alone; the error is a [*trigger.FieldError].
func ValidRate(rate float64) error {
	if rate == 0 || rate >= MinRate && rate <= MaxRate { // NaN fails every comparison
		return nil
	}
	return bad("rate", "%v; want deliveries per second, %g to %g, or 0 for no limit", rate, MinRate, MaxRate)
}

func bad(field, format string, args ...any) error {
	return &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

func queueURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && strings.Trim(u.Path, "/") != ""
}

// Queue returns the queue URL for a lane.
func (s *Service) Queue(l trigger.Lane) string {
	if l == trigger.Urgent && s.UrgentQueueURL != "" {
		return s.UrgentQueueURL
	}
	return s.QueueURL
}

// Allows reports whether the sender may submit for the service.
func (s *Service) Allows(senderID string) bool {
	if len(s.Senders) == 0 {
		return true
	}
	for _, p := range s.Senders {
		if n := len(p); n > 0 && p[n-1] == '*' {
			if len(senderID) >= n-1 && senderID[:n-1] == p[:n-1] {
				return true
			}
		} else if p == senderID {
			return true
		}
	}
	return false
}

// ErrUnknown is returned for a service that the registry does not hold, after
// it was looked for with a consistent read.
var ErrUnknown = errors.New("service is not in the registry")

// PartialError is what [Source.List] returns beside the services it could read
// when single items could not be read. It is no failure of the source.
type PartialError struct {
	Bad map[string]error // by the name of the service
}

// Error implements error.
func (e *PartialError) Error() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(e.Bad)) {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "service %q: %v", name, e.Bad[name])
	}
	return b.String()
}

// Unwrap implements the protocol of errors.Is and errors.As.
func (e *PartialError) Unwrap() []error {
	return slices.Collect(maps.Values(e.Bad))
}

// Source is where the items lie. Implementations are dynamoregistry and the
// in-memory [Static]; package registrytest holds the suite they pass.
type Source interface {
	// List returns every service. Eventually consistent. An item that cannot be
	// read hides no other: the rest is returned beside a [*PartialError].
	List(ctx context.Context) ([]Service, error)
	// Get reads one service, strongly consistent; ErrUnknown if there is none.
	Get(ctx context.Context, name string) (Service, error)
	// Put creates or replaces a service. It validates, and sets Updated.
	Put(ctx context.Context, s Service) error
	// Delete removes a service; ErrUnknown if there is none.
	Delete(ctx context.Context, name string) error
	// SetPaused pauses or resumes a service; ErrUnknown if there is none.
	SetPaused(ctx context.Context, name string, paused bool) error
	// SetRate changes a service's rate (see [Service]); ErrUnknown if there is
	// none.
	SetRate(ctx context.Context, name string, rate float64) error
}
