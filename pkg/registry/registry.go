// Package registry owns what is known of the owning services: their queues,
// limits, allowed senders and contact. Items are written by Terraform or the
// CLI and read here, cached.
package registry

import (
	"context"
	"errors"
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
	Owner   string // contact of the owning team
	Alert   string // where the owner is told: SNS topic ARN or webhook URL
	Paused  bool   // submissions are stored, nothing is delivered
	Updated time.Time
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

// Source is where the items lie. Implementations are dynamoregistry and the
// in-memory [Static].
type Source interface {
	// List returns every service. Eventually consistent.
	List(ctx context.Context) ([]Service, error)
	// Get reads one service, strongly consistent; ErrUnknown if there is none.
	Get(ctx context.Context, name string) (Service, error)
	// Put creates or replaces a service.
	Put(ctx context.Context, s Service) error
}
