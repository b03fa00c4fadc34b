package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// epochCache keeps the newest answer of a Partitions source. An old answer is
// used while the source fails: a row stored under an old count is scanned and
// found all the same, only growth reaches this sender later.
type epochCache struct {
	source Partitions
	keep   time.Duration

	mu     sync.Mutex
	epochs trigger.Epochs
	read   time.Time
}

func (c *epochCache) get(ctx context.Context, now time.Time) (trigger.Epochs, error) {
	if c.source == nil {
		return trigger.Epochs{{N: trigger.DefaultPartitions}}, nil
	}
	c.mu.Lock()
	held, age := c.epochs, now.Sub(c.read)
	c.mu.Unlock()
	if held != nil && age >= 0 && age < c.keep {
		return held, nil
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
