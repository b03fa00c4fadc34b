// Package jobs runs the managed layer as it ships (job control, runners with
// their workers and reconcilers) as several processes over tables and queues in
// memory, in virtual time, and checks what it promises: results are written by
// the holder of the lease alone, nothing of an old generation starts, every
// occurrence is accounted for exactly once, and every run ends.
//
// A [World] is a stage that tests set scenes on; [Run] plays a seed's own: jobs
// of every kind, edits, kills, freezes, lost replies and clocks that differ. Both
// must be made inside a testing/synctest bubble. A seed fixes the plan and which
// calls its faults hit, but not the order of goroutines within one instant: a
// replay repeats the seed until it fails.
package jobs
