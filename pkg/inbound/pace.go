package inbound

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

const (
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 15 * time.Second
)

// pause waits; false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter spreads a pause over ±20 %.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.4*float64(d)) //nolint:gosec // spreads load, guards nothing.
}

// tokens paces a lane: a bucket that fills at a rate. What pollers took and have
// not used counts as being in the bucket, so that giving it back after an empty
// poll makes no burst.
type tokens struct {
	now func() time.Time

	mu    sync.Mutex
	rate  float64 // per second; 0: no limit
	have  float64
	taken float64 // by polls under way
	at    time.Time
}

func newTokens(now func() time.Time) *tokens {
	return &tokens{now: now, at: now(), have: queue.MaxBatch}
}

// burst is half a second's worth, at least one poll.
func (b *tokens) burst() float64 { return max(b.rate/2, queue.MaxBatch) }

func (b *tokens) setRate(perSecond float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	b.rate = perSecond
	b.have = min(b.have, b.burst())
}

// fill brings the bucket up to now. Called with mu held.
func (b *tokens) fill() {
	now := b.now()
	if passed, most := now.Sub(b.at), b.burst()-b.taken; passed > 0 && b.have < most {
		b.have = min(b.have+passed.Seconds()*b.rate, most)
	}
	b.at = now
}

// take waits until n messages may be received, or at least one after a second,
// and returns how many; 0 if ctx ended.
func (b *tokens) take(ctx context.Context, n int) int {
	began := b.now()
	for {
		b.mu.Lock()
		if b.rate <= 0 {
			b.mu.Unlock()
			return n
		}
		b.fill()
		got := min(n, int(b.have))
		waited := b.now().Sub(began)
		if got == n || got >= 1 && waited >= time.Second {
			b.have -= float64(got)
			b.taken += float64(got)
			b.mu.Unlock()
			return got
		}
		missing := float64(n) - b.have
		if left := time.Second - waited; left > 0 {
			missing = min(missing, max(left.Seconds()*b.rate, 1-b.have))
		} else {
			missing = 1 - b.have
		}
		// Tokens that others hold come back at no known time: look again soon.
		wait := min(max(time.Duration(missing/b.rate*float64(time.Second)), time.Millisecond), 250*time.Millisecond)
		b.mu.Unlock()
		if !pause(ctx, wait) {
			return 0
		}
	}
}

// done ends a poll that took some tokens and used some of them.
func (b *tokens) done(took, used int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 && b.taken == 0 {
		return
	}
	b.fill()
	b.taken = max(b.taken-float64(took), 0)
	b.have = min(b.have+float64(took-used), b.burst())
}

// hold bounds the messages a lane has in hand, by count and bytes.
type hold struct {
	maxCount, maxBytes int

	mu      sync.Mutex
	count   int
	bytes   int
	changed chan struct{} // closed at the next release
}

func newHold(count, bytes int) *hold {
	return &hold{maxCount: count, maxBytes: bytes, changed: make(chan struct{})}
}

// reserve waits for room for n messages; false if ctx ended.
func (h *hold) reserve(ctx context.Context, n int) bool {
	for {
		h.mu.Lock()
		if h.count+n <= h.maxCount && h.bytes < h.maxBytes {
			h.count += n
			h.mu.Unlock()
			return true
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// grow counts the bytes of messages that came.
func (h *hold) grow(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += bytes
}

// release gives room back.
func (h *hold) release(n, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count -= n
	h.bytes -= bytes
	close(h.changed)
	h.changed = make(chan struct{})
}

// empty waits until nothing is in hand; false if ctx ended.
func (h *hold) empty(ctx context.Context) bool {
	for {
		h.mu.Lock()
		n, changed := h.count, h.changed
		h.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (h *hold) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
