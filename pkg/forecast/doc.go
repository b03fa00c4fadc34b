// Package forecast owns how many triggers are due in each minute of each owning
// service, counted as they are stored, so that workers can grow before a known
// peak: [Counter] counts and writes, [Reader] reads, caches and exposes. A run of
// a managed job is a trigger of the service "runs" or "runs-urgent" and is
// counted as such.
//
// It is a forecast, not a ledger. What is cancelled or moved after it was stored
// stays counted; a process that dies loses the counts of its last second, or of
// its last ten for minutes further ahead than ten; a write whose reply is lost may
// count twice. It refuses to slow down or to fail those who count: counting takes
// memory only, within a bound, and beyond it counts are dropped and that is
// counted. It refuses to show a forecast that has grown old.
//
// Everything here may be used concurrently.
package forecast

import (
	"context"
	"time"
)

// Point is how many triggers are due in one minute.
type Point struct {
	Minute time.Time // its start, UTC
	Due    int64
}

// Store keeps the counts of all processes. Implementations are dynamoforecast
// and the in-memory [Memory]; package forecasttest holds the suite they pass.
type Store interface {
	// Add adds n (1 or more) to the count of a service's minute. An error does not
	// say that nothing was added: a reply may be lost.
	Add(ctx context.Context, service string, minute time.Time, n int64) error
	Ranger
}

// Ranger is the half of a [Store] that a [Reader] needs.
type Ranger interface {
	// Range returns the minutes of a service that have a count, in order, whose
	// start is at or after from and before to. Eventually consistent.
	Range(ctx context.Context, service string, from, to time.Time) ([]Point, error)
}

// minuteOf returns the number of the minute that t lies in, counted from 1970.
func minuteOf(t time.Time) int64 { return t.Truncate(time.Minute).Unix() / 60 }

// startOf returns the start of a minute.
func startOf(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }
