// Package simulation runs the code that ships (client, inbound, scheduler,
// worker) as several processes over the in-memory table and queues, in virtual
// time, through the faults of a seed, and checks what Myosin promises: nothing
// accepted is lost, nothing cancelled is delivered, nothing is early, and every
// duplicate has an explanation.
//
// A seed fixes the world, the schedule of submissions and calls, the faults and
// which operations they hit. The order of goroutines within one instant and the
// jitter of back-offs are not fixed: a replay repeats the seed until it fails.
// [Run] must be called inside a testing/synctest bubble.
package simulation
