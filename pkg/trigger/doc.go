// Package trigger owns the nouns of the core: the trigger and its id, lanes,
// partitions, the packed row state, the handle, and the two wire messages
// (inbound and delivered). WIRE.md beside this file describes the messages for
// other languages.
//
// It refuses everything outside the limits of [Limits]: whatever passes
// [Trigger.Validate] can be stored, delivered and looked up.
//
// It depends on the standard library only and holds no state, so every function
// may be called concurrently.
package trigger
