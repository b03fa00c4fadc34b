package table

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits are what a table may do in a second; zeros: no limit.
type Limits struct {
	Writes         float64 // write units of the table
	Reads          float64 // read units of the table
	PhysicalWrites float64 // write units of each physical partition
	PhysicalReads  float64 // read units of each physical partition
	Physical       int     // physical partitions; 0: as many as Writes needs
	Burst          time.Duration
	// Even spreads hash keys over the physical partitions one after another, as
	// they come, instead of by their hashes.
	Even bool
}

// AWSLimits are those of a new on-demand table, without bursts. Source:
// "Quotas in DynamoDB" in the DynamoDB developer guide.
func AWSLimits() Limits {
	return Limits{Writes: 4000, Reads: 12_000, PhysicalWrites: 1000, PhysicalReads: 3000}
}

// Validate reports every limit out of range, joined.
func (l *Limits) Validate() error {
	var errs []error
	for name, v := range map[string]float64{
		"table writes": l.Writes, "table reads": l.Reads, "partition writes": l.PhysicalWrites,
		"partition reads": l.PhysicalReads, "physical partitions": float64(l.Physical), "burst": float64(l.Burst),
	} {
		if v < 0 || math.IsNaN(v) {
			errs = append(errs, fmt.Errorf("%s: %g; want 0 (no limit) or more", name, v))
		}
	}
	return errors.Join(errs...)
}

// capacity is what is left of a table's limits. The table's lock guards it.
type capacity struct {
	write, read bucket
	parts       []struct{ write, read bucket }
	even        bool
	keys        int // hash keys met so far
}

func newCapacity(l Limits) *capacity {
	n := l.Physical
	if n == 0 {
		n = 1
		if l.Writes > 0 && l.PhysicalWrites > 0 {
			n = max(1, int(math.Ceil(l.Writes/l.PhysicalWrites)))
		}
	}
	// What was not used in the last second may be used now; more is a burst.
	span := max(time.Second, l.Burst).Seconds()
	c := &capacity{
		write: newBucket(l.Writes, span), read: newBucket(l.Reads, span),
		parts: make([]struct{ write, read bucket }, n), even: l.Even,
	}
	for i := range c.parts {
		c.parts[i].write, c.parts[i].read = newBucket(l.PhysicalWrites, span), newBucket(l.PhysicalReads, span)
	}
	return c
}

// physical is the physical partition of the next hash key that comes, whose hash
// is given.
func (c *capacity) physical(hash uint32) int {
	at := uint64(c.keys) //nolint:gosec // a count.
	if c.keys++; !c.even {
		at = mix(uint64(hash)) // the keys of neighbouring partitions differ in a digit
	}
	return int(at % uint64(len(c.parts))) //nolint:gosec // small.
}

// mayWrite reports whether there is capacity to write to a physical partition.
// Costs are not known beforehand: what a write takes too much is owed.
func (c *capacity) mayWrite(now time.Time, part int) bool {
	return c.write.open(now) && c.parts[part].write.open(now)
}

func (c *capacity) wrote(part int, units float64) {
	c.write.spend(units)
	c.parts[part].write.spend(units)
}

func (c *capacity) mayRead(now time.Time, part int) bool {
	return c.read.open(now) && c.parts[part].read.open(now)
}

func (c *capacity) readUnits(part int, units float64) {
	c.read.spend(units)
	c.parts[part].read.spend(units)
}

// bucket refills at a rate up to what a span of it gives; rate 0: it is endless.
type bucket struct {
	rate, most, left float64
	at               time.Time
}

func newBucket(rate, span float64) bucket {
	return bucket{rate: rate, most: rate * span, left: rate * span}
}

func (b *bucket) open(now time.Time) bool {
	if b.rate == 0 {
		return true
	}
	if !b.at.IsZero() {
		b.left = min(b.most, b.left+b.rate*max(0, now.Sub(b.at).Seconds()))
	}
	b.at = now
	return b.left > 0
}

func (b *bucket) spend(units float64) {
	if b.rate != 0 {
		b.left -= units
	}
}

// writeUnits is the cost of a write of so many bytes.
func writeUnits(size int32) float64 { return float64(max(1, (size+1023)/1024)) }

// readUnits is the cost of reading so many bytes.
func readUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+4095)/4096))
	if !consistent {
		units /= 2
	}
	return units
}
