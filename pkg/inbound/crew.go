package inbound

import (
	"context"
	"sync"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// crewLeast is how many pollers wait on an idle buffer: two, so that a call that
// hangs does not stop the lane.
const crewLeast = 2

// crew says how many of a lane's pollers are needed. It doubles when a poll
// comes back full, since there is more where that came from, and loses one when
// a poll brings less than half: idle long polls cost requests, and pollers that
// share few messages among them make small batches.
type crew struct {
	most int

	mu    sync.Mutex
	size  int
	grown chan struct{} // closed at the next growth
}

func newCrew(most int) *crew {
	return &crew{most: most, size: min(crewLeast, most), grown: make(chan struct{})}
}

// join waits until the poller, counted from 0, is needed; false if ctx ended.
func (c *crew) join(ctx context.Context, poller int) bool {
	for {
		c.mu.Lock()
		needed, grown := poller < c.size, c.grown
		c.mu.Unlock()
		if needed {
			return ctx.Err() == nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return false
		}
	}
}

// found takes note of how many messages a poll brought.
func (c *crew) found(messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case messages == queue.MaxBatch && c.size < c.most:
		c.size = min(2*c.size, c.most)
		close(c.grown)
		c.grown = make(chan struct{})
	case messages < queue.MaxBatch/2:
		c.size = max(c.size-1, min(crewLeast, c.most))
	}
}
