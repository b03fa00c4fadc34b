// Package queue is the contract of message queues as Myosin uses them: batch
// sends with an outcome per message, long polls, batch deletes and visibility.
//
// It owns no transport. Implementations are sqsqueue and memqueue; queuetest is
// the suite they all pass. Every method may be called concurrently.
package queue

import (
	"context"
	"errors"
	"time"
)

// Limits of SQS that callers plan for.
const (
	MaxBatch         = 10
	MaxBatchBytes    = 1 << 20 // bodies, attribute names, types and values of one call
	MaxMessageBytes  = 1 << 20
	MaxDelay         = 15 * time.Minute
	MaxWait          = 20 * time.Second
	MaxVisibility    = 12 * time.Hour
	AttributeTypeLen = len("String")
)

// Message is one message to send.
type Message struct {
	Body       string            // not empty; see trigger.SQSText
	Attributes map[string]string // at most ten, none empty, sent as type String
	Group      string            // MessageGroupId: fair queues and FIFO order; may be empty on standard queues
	Dedup      string            // MessageDeduplicationId: needed on FIFO queues, ignored on others
	Delay      time.Duration     // whole seconds; always sent, so that a queue's own default never applies; ignored on FIFO
}

// Size is the message's share of the byte limits.
func (m *Message) Size() int {
	n := len(m.Body)
	for k, v := range m.Attributes {
		n += len(k) + len(v) + AttributeTypeLen
	}
	return n
}

// Received is one message received.
type Received struct {
	ID           string // the queue's own id: changes when redriven
	Receipt      string // for Delete and ChangeVisibility
	Body         string
	Attributes   map[string]string // String attributes only
	Group        string
	SenderID     string    // who sent it, as the queue knows it; may be empty
	SentAt       time.Time // the queue's SentTimestamp
	ReceiveCount int       // this receive included
}

// Errors of a send. Each means that the message was surely not sent. Any other
// error means that it may have been.
var (
	// ErrMissing: the queue does not exist. Passing for up to a minute.
	ErrMissing = errors.New("queue does not exist")
	// ErrDenied: not allowed to use the queue (or its key).
	ErrDenied = errors.New("access to the queue denied")
	// ErrThrottled: refused for now.
	ErrThrottled = errors.New("queue throttled")
	// ErrRejected: this message is refused for good.
	ErrRejected = errors.New("message refused by the queue")
	// ErrNotSent: not sent for another reason that may pass.
	ErrNotSent = errors.New("message not sent")
)

// SurelyUnsent reports whether err proves that the message was not sent.
func SurelyUnsent(err error) bool {
	for _, e := range []error{ErrMissing, ErrDenied, ErrThrottled, ErrRejected, ErrNotSent} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ErrReceipt is returned for a receipt that is not or no longer valid: it was
// never given, or the message became visible again, or was deleted. Not every
// engine tells: SQS lets a message be deleted twice, and on standard queues
// answers the delete by a receipt of an earlier receive with success, without
// deleting anything once the message was received again.
var ErrReceipt = errors.New("receipt no longer valid")

// ReceiveOptions bound one receive.
type ReceiveOptions struct {
	Max        int           // 1 to MaxBatch; 0 means MaxBatch
	Wait       time.Duration // whole seconds up to MaxWait; 0 answers at once
	Visibility time.Duration // whole seconds; 0 means the queue's own
}

// Visibility is one entry of ChangeVisibility.
type Visibility struct {
	Receipt string
	Timeout time.Duration // whole seconds from now, up to MaxVisibility; 0 makes the message visible at once
}

// Depth is what a queue says of itself, approximately.
type Depth struct {
	Visible, InFlight, Delayed int
}

// Sender sends to queues named by URL.
type Sender interface {
	// SendBatch sends any number of messages to one queue, split by count and
	// bytes, and returns one error per message in the order given. It makes one
	// attempt: a repeat after an unknown outcome is the caller's decision. On a
	// FIFO queue, messages behind a failed one of their group are held back
	// (ErrNotSent) as far as they are not in the same call.
	SendBatch(ctx context.Context, url string, msgs []Message) []error
}

// Receiver receives from queues named by URL.
type Receiver interface {
	// Receive waits up to opts.Wait for messages. None is not an error. When ctx
	// ends during the wait, it returns what came, or ctx's error. It makes one
	// attempt; errors wrap ErrMissing, ErrDenied or ErrThrottled where they are that.
	Receive(ctx context.Context, url string, opts ReceiveOptions) ([]Received, error)
	// Delete deletes any number of messages; one error per receipt.
	Delete(ctx context.Context, url string, receipts []string) []error
	// ChangeVisibility sets visibility of any number of messages; one error per entry.
	ChangeVisibility(ctx context.Context, url string, entries []Visibility) []error
}

// Spec describes a queue to create, for the embedded and test cases; Terraform
// makes the real ones.
type Spec struct {
	Name       string
	FIFO       bool          // Name must end in ".fifo"
	Visibility time.Duration // 0: 30 s
	Delay      time.Duration
	// DeadLetterURL and MaxReceives make a redrive policy where both are set.
	DeadLetterURL string
	MaxReceives   int
}

// Queues is everything a queue engine offers.
type Queues interface {
	Sender
	Receiver
	// Create makes a queue, or finds the one of that name, and returns its URL.
	// Retention is 14 days and the size limit 1 MiB.
	Create(ctx context.Context, s Spec) (string, error)
	// URL returns the URL of the queue of that name; ErrMissing if there is none.
	URL(ctx context.Context, name string) (string, error)
	// Depth reads the approximate counts of a queue.
	Depth(ctx context.Context, url string) (Depth, error)
	// DeleteQueue deletes a queue; ErrMissing if there is none.
	DeleteQueue(ctx context.Context, url string) error
}
