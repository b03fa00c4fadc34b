package protect

import "time"

// ring is more than the window, so that the bucket of a clock that is ahead does
// not share a place with the oldest.
const ring = 16

// window counts calls over the last minute.
type window [ring]Bucket

func (w *window) add(b Bucket) {
	at := &w[int(((b.Index%ring)+ring)%ring)]
	if at.Index != b.Index {
		if at.Index > b.Index && at.Calls > 0 && at.Index-b.Index < 2*ring {
			return // older than a whole ring: nobody would look at it
		}
		*at = Bucket{Index: b.Index}
	}
	at.Calls += b.Calls
	at.Failures += b.Failures
}

// live calls f with each bucket of the minute before now. One bucket ahead
// counts too: clocks of a fleet differ by a second or so.
func (w *window) live(now time.Time, f func(Bucket)) {
	last := BucketAt(now)
	for i := last - WindowBuckets + 1; i <= last+1; i++ {
		if b := w[int(((i%ring)+ring)%ring)]; b.Index == i && b.Calls > 0 {
			f(b)
		}
	}
}

func (w *window) sum(now time.Time) (calls, failures int) {
	w.live(now, func(b Bucket) {
		calls += int(b.Calls)
		failures += int(b.Failures)
	})
	return calls, failures
}

func (w *window) buckets(now time.Time) []Bucket {
	var out []Bucket
	w.live(now, func(b Bucket) { out = append(out, b) })
	return out
}
