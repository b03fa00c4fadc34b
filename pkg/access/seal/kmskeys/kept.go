package kmskeys

import (
	"sync"
	"time"
)

// kept is a memory of data keys, each for a time and a number of uses. Two that
// want the same key at once may both ask KMS: that costs a call, and waiting for
// the other's would make one caller's deadline the other's.
type kept[K comparable] struct {
	now      func() time.Time
	lifetime time.Duration
	uses     int
	limit    int

	mu   sync.Mutex
	keys map[K]*keptKey
}

type keptKey struct {
	dataKey
	until time.Time
	left  int // uses
}

func newKept[K comparable](o Options) *kept[K] {
	return &kept[K]{now: o.Now, lifetime: o.Lifetime, uses: o.Uses, limit: o.MaxKept, keys: map[K]*keptKey{}}
}

// get counts a use. Errors of fetch are not kept.
func (c *kept[K]) get(id K, fetch func() (dataKey, error)) (dataKey, error) {
	c.mu.Lock()
	asked := c.now()
	if k, ok := c.keys[id]; ok && asked.Before(k.until) && k.left > 0 {
		k.left--
		c.mu.Unlock()
		return k.dataKey, nil
	}
	c.mu.Unlock()
	fresh, err := fetch()
	if err != nil {
		return dataKey{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoom(asked)
	c.keys[id] = &keptKey{dataKey: fresh, until: asked.Add(c.lifetime), left: c.uses - 1}
	return fresh, nil
}

// makeRoom drops what is over or, when nothing is, any one.
func (c *kept[K]) makeRoom(now time.Time) {
	if len(c.keys) < c.limit {
		return
	}
	for id, k := range c.keys {
		if k.left == 0 || !now.Before(k.until) {
			delete(c.keys, id)
		}
	}
	for id := range c.keys {
		if len(c.keys) < c.limit {
			return
		}
		delete(c.keys, id)
	}
}
