package inbound

import (
	"context"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/clock"
)

const (
	sickFirst = 500 * time.Millisecond
	sickMost  = 15 * time.Second
	// probeStall is when a probe that told nothing is given up.
	probeStall = 30 * time.Second
)

// health is a lane's breaker over the trigger table: while the table fails,
// receiving would only burn receive counts. Sick, it lets nothing be received
// for a while, then one message as a probe, whose insert decides.
type health struct {
	clock *clock.Clock

	mu      sync.Mutex
	sick    bool
	since   time.Time // local; when it fell sick
	until   time.Time // local; next probe
	wait    time.Duration
	probing bool
	changed chan struct{} // closed when a probe may be due earlier than thought
}

func newHealth(c *clock.Clock) *health {
	return &health{clock: c, changed: make(chan struct{})}
}

// admit waits until the caller may receive, and says whether it is the probe;
// ok is false if ctx ended.
func (h *health) admit(ctx context.Context) (probe, ok bool) {
	for {
		h.mu.Lock()
		if !h.sick {
			h.mu.Unlock()
			return false, ctx.Err() == nil
		}
		now := h.clock.Local()
		wait := h.until.Sub(now)
		if h.probing {
			wait += probeStall
		}
		if wait <= 0 {
			h.probing, h.until = true, now
			h.mu.Unlock()
			return true, ctx.Err() == nil
		}
		changed := h.changed
		h.mu.Unlock()
		t := time.NewTimer(min(wait, probeStall)) // the local clock may be set back
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return false, false
		}
	}
}

// idle ends a probe that brought nothing to insert: another may follow.
func (h *health) idle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = false
	h.wake()
}

// worked says that the table answered; it reports whether that is news.
func (h *health) worked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sick {
		return false
	}
	h.sick, h.probing, h.wait = false, false, 0
	h.wake()
	return true
}

// failed says that the table did nothing of what was asked for the first time.
// It reports whether that is news.
func (h *health) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Local()
	news := !h.sick
	if news {
		h.sick, h.since = true, now
	} else if now.Before(h.until) {
		return false // a batch that was under way with the one that counted
	}
	h.wait = min(max(2*h.wait, sickFirst), sickMost)
	h.until = now.Add(jitter(h.wait))
	h.probing = false
	h.wake()
	return news
}

func (h *health) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *health) isSick() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick
}

func (h *health) sickFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sick {
		return 0
	}
	return h.clock.Local().Sub(h.since)
}
