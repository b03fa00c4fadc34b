package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// refreshFor bounds how long one caller waits for a newer answer while an older
// one would do.
const refreshFor = 2 * time.Second

// epochCache keeps the newest answer of a Partitions source. An old answer is
// used while the source fails, and while another caller asks it again: a row
// stored under an old count is scanned and found all the same, only growth
// reaches this sender later.
type epochCache struct {
	source Partitions
	keep   time.Duration

	mu     sync.Mutex
	epochs trigger.Epochs
	read   time.Time
	asking bool // a caller asks again
}

func (c *epochCache) get(ctx context.Context, now time.Time) (trigger.Epochs, error) {
	if c.source == nil {
		return trigger.Epochs{{N: trigger.DefaultPartitions}}, nil
	}
	held, ask := c.held(now)
	if !ask {
		return held, nil
	}
	if held != nil {
		defer c.asked()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, refreshFor)
		defer cancel()
	}
	epochs, err := c.source.Epochs(ctx)
	if err == nil {
		err = epochs.Validate()
	}
	switch {
	case err != nil && held != nil:
		epochs = held // and leave the source alone for a while
	case err != nil:
		return nil, fmt.Errorf("read partition epochs: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epochs, c.read = epochs, now
	return epochs, nil
}

// held returns the last answer, if any, and whether this caller is to ask for
// another: at most one does while there is an answer.
func (c *epochCache) held(now time.Time) (epochs trigger.Epochs, ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := now.Sub(c.read)
	ask = c.epochs == nil || !c.asking && (age < 0 || age >= c.keep)
	c.asking = c.asking || ask && c.epochs != nil
	return c.epochs, ask
}

func (c *epochCache) asked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
}
