package platform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// DefaultPrefix is the prefix of an installation that names none.
const DefaultPrefix = "myosin"

// DrainSwitch is the name of a registry entry that stands for the inbound drain
// itself: while it is there and paused, no process drains the buffers. No
// trigger is accepted for it.
const DrainSwitch = "myosin-inbound"

// Names are the names of an installation's resources. Two installations in one
// account differ in the prefix.
type Names struct {
	Prefix string // see [DefaultPrefix]
}

// maxPrefix leaves room in the 80 characters of a queue's name for
// "-svc-<48>-urgent.fifo".
const maxPrefix = 14

// Validate checks the prefix: 1 to 14 letters, digits and '-', so that every
// name made from it is one AWS takes.
func (n Names) Validate() error {
	ok := n.Prefix != "" && len(n.Prefix) <= maxPrefix && !strings.HasPrefix(n.Prefix, "-") && !strings.HasSuffix(n.Prefix, "-")
	for _, c := range n.Prefix {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("prefix %q; want 1 to %d letters, digits and inner '-'", n.Prefix, maxPrefix)
	}
	return nil
}

// Inbound is the queue that buffers a lane's submissions.
func (n Names) Inbound(lane trigger.Lane) string {
	if lane == trigger.Urgent {
		return n.Prefix + "-inbound-urgent"
	}
	return n.Prefix + "-inbound"
}

// InboundDLQ is the queue of submissions that were refused, with the reason.
func (n Names) InboundDLQ() string { return n.Prefix + "-inbound-dlq" }

// Triggers is the trigger table.
func (n Names) Triggers() string { return n.Prefix + "-triggers" }

// Services is the table of the service registry.
func (n Names) Services() string { return n.Prefix + "-services" }

// Forecast is the table of what is due per service and minute.
func (n Names) Forecast() string { return n.Prefix + "-forecast" }

// Jobs is the table of the managed layer's jobs and records.
func (n Names) Jobs() string { return n.Prefix + "-jobs" }

// Runs is the table of the managed layer's runs.
func (n Names) Runs() string { return n.Prefix + "-runs" }

// ServiceQueue is the queue of an owning service.
func (n Names) ServiceQueue(service string, fifo bool) string {
	return n.Prefix + "-svc-" + service + suffix(fifo)
}

// ServiceUrgentQueue is the queue of an owning service for its urgent lane.
func (n Names) ServiceUrgentQueue(service string, fifo bool) string {
	return n.Prefix + "-svc-" + service + "-urgent" + suffix(fifo)
}

// ServiceDLQ is the dead-letter queue of an owning service.
func (n Names) ServiceDLQ(service string, fifo bool) string {
	return n.Prefix + "-svc-" + service + "-dlq" + suffix(fifo)
}

func suffix(fifo bool) string {
	if fifo {
		return ".fifo"
	}
	return ""
}

var errReserved = errors.New("the name is reserved")

// ValidService checks the name of a service to be added: it must satisfy
// [trigger.ValidService] and make queue names that are not another service's.
func (n Names) ValidService(name string) error {
	if err := trigger.ValidService(name); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	if name == DrainSwitch || strings.HasSuffix(name, "-dlq") || strings.HasSuffix(name, "-urgent") {
		return fmt.Errorf("service %q: %w: it would share a queue name with another", name, errReserved)
	}
	return nil
}
