package journal

import "strings"

// Kind is what a queue is for.
type Kind int

// The kinds of queues.
const (
	Other Kind = iota
	Buffer
	Service
	DeadLetters
)

// Names tells the queues of an installation apart by their names.
type Names struct {
	// Prefix of the installation; see platform.Names.
	Prefix string
}

// Kind returns what a queue is for.
func (n Names) Kind(queue string) Kind {
	name, ours := strings.CutPrefix(queue, n.Prefix+"-")
	switch {
	case !ours:
		return Other
	case strings.HasSuffix(name, "-dlq"):
		return DeadLetters
	case name == "inbound", name == "inbound-urgent":
		return Buffer
	case strings.HasPrefix(name, "svc-"):
		return Service
	}
	return Other
}

// QueueName is the last part of a queue's URL.
func QueueName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
