package scheduler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// measured takes messages: those of slow queues after two seconds, hung ones
// never; and notes how late others came.
type measured struct {
	mu    sync.Mutex
	worst map[string]time.Duration
	taken map[string]int
}

func (m *measured) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	errs := make([]error, len(msgs))
	switch {
	case strings.HasSuffix(url, "/slow"):
		<-time.After(2 * time.Second)
	case strings.HasSuffix(url, "/hung"):
		<-ctx.Done()
		for i := range errs {
			errs[i] = errors.New("connection timed out")
		}
		return errs
	}
	if strings.HasSuffix(url, "/missing") {
		for i := range errs {
			errs[i] = queue.ErrMissing
		}
		return errs
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		m.taken = map[string]int{}
	}
	for i := range msgs {
		t, err := trigger.ReadDelivered(msgs[i].Body, msgs[i].Attributes)
		if err != nil {
			errs[i] = err
			continue
		}
		m.taken[url]++
		m.worst[url] = max(m.worst[url], time.Since(t.Due))
	}
	return errs
}

// of tells how many messages a queue took, and how late the latest was.
func (m *measured) of(url string) (taken int, worst time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken[url], m.worst[url]
}
