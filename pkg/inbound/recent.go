package inbound

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	recentFor = 10 * time.Minute
	recentMax = 100_000
)

// recent remembers for ten minutes what this process stored, 100,000 entries at
// most. A message whose delete was lost comes again after its row may have been
// delivered and deleted; the memory keeps it from being delivered twice. It is
// a saving, not a promise: another process has another memory.
//
// Two halves take turns, so that forgetting costs nothing.
type recent struct {
	clock *clock.Clock

	mu       sync.Mutex
	now, old map[digest]struct{}
	turned   time.Time // local
}

// digest stands for everything a submission says, so that no other is ever
// taken for it.
type digest [16]byte

func newRecent(c *clock.Clock) *recent {
	return &recent{clock: c, now: make(map[digest]struct{}), turned: c.Local()}
}

// has reports whether the submission was stored lately.
func (r *recent) has(d digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	if _, ok := r.now[d]; ok {
		return true
	}
	_, ok := r.old[d]
	return ok
}

func (r *recent) add(d digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	r.now[d] = struct{}{}
}

// turn forgets the older half when the newer one is full or old. Called with mu held.
func (r *recent) turn() {
	age := r.clock.Local().Sub(r.turned)
	if age >= 0 && age < recentFor/2 && len(r.now) < recentMax/2 {
		return
	}
	if age.Abs() >= recentFor {
		r.now = make(map[digest]struct{})
	}
	r.old, r.now, r.turned = r.now, make(map[digest]struct{}), r.clock.Local()
}

// digestOf returns the digest of a trigger.
func digestOf(t *trigger.Trigger) digest {
	h := sha256.New()
	var n [8]byte
	num := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v)) //nolint:gosec // any bijection does.
		h.Write(n[:])
	}
	text := func(s string) {
		num(int64(len(s)))
		h.Write([]byte(s))
	}
	h.Write(t.ID[:])
	num(t.Due.UnixMilli())
	num(int64(t.Lane))
	num(int64(t.N))
	for _, s := range []string{t.Service, t.Name, t.Tenant, t.Group, t.Traceparent, string(t.Payload)} {
		text(s)
	}
	for _, k := range slices.Sorted(maps.Keys(t.Headers)) {
		text(k)
		text(t.Headers[k])
	}
	return digest(h.Sum(nil)[:16])
}
