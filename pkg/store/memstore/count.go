package memstore

import "maps"

// Count is what one kind of operation cost, by the rules DynamoDB bills:
// ⌈size/1 KB⌉ units a write and ⌈size/4 KB⌉ a read, half if not consistent,
// double in a transaction.
type Count struct {
	Requests   int // calls; a Write makes one for every 25 ops
	Statements int // parts of a Write
	Conflicts  int // conditions that failed
	Rows       int // rows read
	WriteUnits float64
	ReadUnits  float64
}

func (c Count) plus(d Count) Count {
	c.Requests += d.Requests
	c.Statements += d.Statements
	c.Conflicts += d.Conflicts
	c.Rows += d.Rows
	c.WriteUnits += d.WriteUnits
	c.ReadUnits += d.ReadUnits
	return c
}

// Counts holds a Count for each operation that ran; see [OpWrite] and its kin.
type Counts map[string]Count

// Total sums all operations.
func (c Counts) Total() Count {
	var t Count
	for _, n := range c {
		t = t.plus(n)
	}
	return t
}

// Counts returns what was done since New or the last ResetCounts.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// ResetCounts sets all counts to zero.
func (s *Store) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

func (s *Store) count(op string, c Count) { s.counts[op] = s.counts[op].plus(c) }

func kilobytes(n, each int) float64 { return float64(max(1, (n+each-1)/each)) }

// writeUnits bills a write by the larger of the row before and after; a failed
// condition costs as much as what it looked at.
func writeUnits(before, after *record) float64 {
	n := 0
	if before != nil {
		n = before.size()
	}
	if after != nil {
		n = max(n, after.size())
	}
	return kilobytes(n, 1024)
}

func readUnits(bytes int, consistent bool) float64 {
	u := kilobytes(bytes, 4096)
	if !consistent {
		u /= 2
	}
	return u
}
