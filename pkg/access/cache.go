package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotFound is what a [KeyStore] returns for an id that no key has.
var ErrNotFound = errors.New("no such key")

// KeyStore is where keys are kept. Key returns [ErrNotFound] (maybe wrapped)
// when there is none; any other error means that it is not known.
type KeyStore interface {
	Key(ctx context.Context, id string) (Key, error)
}

// keyCache answers from memory for a while and lets one read of an id be in
// flight, however many ask. Ids that exist and ids that do not are kept apart:
// who makes ids up cannot push the real ones out.
type keyCache struct {
	store             KeyStore
	now               func() time.Time
	positive          time.Duration
	negative          time.Duration
	maxKnown, maxGone int
	metrics           *metrics

	mu      sync.Mutex
	known   map[string]cachedKey
	gone    map[string]time.Time // until when the id is taken for unknown
	reading map[string]*reading
}

type cachedKey struct {
	key   Key
	until time.Time
}

// reading is one read in flight; the rest is set before done closes.
type reading struct {
	done   chan struct{}
	key    Key
	err    error
	gaveUp bool // the reader's own context ended: no answer for others
	void   bool // forgotten meanwhile: not to be kept. Guarded by keyCache.mu
}

// get returns the record of a key at most positive old. [ErrNotFound] is
// repeated for negative; other errors are not kept.
func (c *keyCache) get(ctx context.Context, id string) (Key, error) {
	for {
		c.mu.Lock()
		now := c.now()
		if e, ok := c.known[id]; ok && now.Before(e.until) {
			c.mu.Unlock()
			return e.key, nil
		}
		if until, ok := c.gone[id]; ok && now.Before(until) {
			c.mu.Unlock()
			return Key{}, ErrNotFound
		}
		in, waiting := c.reading[id]
		if !waiting {
			in = &reading{done: make(chan struct{})}
			c.reading[id] = in
		}
		c.mu.Unlock()
		if !waiting {
			c.read(ctx, id, in)
			return in.key, in.err
		}
		select {
		case <-in.done:
		case <-ctx.Done():
			return Key{}, ctx.Err()
		}
		if !in.gaveUp {
			return in.key, in.err
		}
	}
}

func (c *keyCache) read(ctx context.Context, id string, in *reading) {
	in.err = errors.New("the read did not return") // should the store panic
	began := c.now()                               // the answer is at least as old as this
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case in.err == nil:
			c.metrics.reads.WithLabelValues("found").Inc()
			if !in.void {
				makeRoom(c.known, c.maxKnown, func(e cachedKey) bool { return !began.Before(e.until) })
				c.known[id] = cachedKey{key: in.key, until: began.Add(c.positive)}
				delete(c.gone, id)
			}
		case errors.Is(in.err, ErrNotFound):
			c.metrics.reads.WithLabelValues("unknown").Inc()
			delete(c.known, id)
			if !in.void {
				makeRoom(c.gone, c.maxGone, func(until time.Time) bool { return !began.Before(until) })
				c.gone[id] = began.Add(c.negative)
			}
		default:
			c.metrics.reads.WithLabelValues("error").Inc()
			in.gaveUp = ctx.Err() != nil
		}
		if c.reading[id] == in {
			delete(c.reading, id)
		}
		close(in.done)
	}()
	k, err := c.store.Key(ctx, id)
	if err == nil && k.ID != id {
		err = fmt.Errorf("the store answered with another key")
	}
	if err != nil {
		k = Key{}
	}
	in.key, in.err = k, err
}

// forget makes the next get of an id read the store, and lets nobody join a
// read that began before.
func (c *keyCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, id)
	delete(c.gone, id)
	if in, ok := c.reading[id]; ok {
		in.void = true
		delete(c.reading, id)
	}
}

// makeRoom takes out what is over or, when nothing is, any eighth: the cost of
// a look at everything is spread over the inserts until it is full again.
func makeRoom[V any](m map[string]V, limit int, over func(V) bool) {
	if len(m) < limit {
		return
	}
	for id, v := range m {
		if over(v) {
			delete(m, id)
		}
	}
	drop := limit/8 + 1
	for id := range m {
		if len(m) <= limit-drop {
			return
		}
		delete(m, id)
	}
}
