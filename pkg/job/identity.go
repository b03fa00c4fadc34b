package job

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Spread returns how long after its nominal time a job's runs are due: the same
// offset each time, by hash of the job's id, in [0, min(tolerance, period/2)).
// A period of zero (a job that runs once) leaves the tolerance alone. Whole
// milliseconds.
func Spread(job trigger.ID, tolerance, period time.Duration) time.Duration {
	window := tolerance
	if period > 0 {
		window = min(window, period/2)
	}
	ms := window.Milliseconds()
	if ms <= 0 {
		return 0
	}
	sum := sha256.Sum256(job[:])
	// The high half of hash × window is uniform over the window, without bias.
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(ms))
	return time.Duration(hi) * time.Millisecond //nolint:gosec // below ms, which fits.
}
