// Package job owns the managed layer's nouns and pure rules: what an answer of
// a target means, when to try again, and a run with its ids and its changes.
//
// It refuses I/O, clocks and randomness of its own: times and jitter are
// arguments. It holds no state, so every function may be called concurrently.
package job
