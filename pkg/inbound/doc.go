// Package inbound owns the drain: it takes submissions out of the inbound
// buffers (SQS), checks them, and inserts them into the trigger table, or
// delivers them at once where they are due already.
//
// It acknowledges a submission only once a row stands for it, or it lies in the
// inbound dead-letter queue with the reason. It refuses to drop a message, to
// receive what it could not store, and to put a second row beside one that is
// there: every insert is conditional. What it cannot finish goes back into the
// buffer.
//
// A service that the registry does not hold is no reason to refuse a submission:
// the buffer is open to plain SQS senders and the registry entry may come a
// minute later. It is stored and parked by the schedulers, who bury it after 24
// hours. Only the senders that a known service lists forbid anything.
//
// Two lanes run side by side with workers, memory and limits of their own. An
// [Inbound] runs once; its methods may be called concurrently.
package inbound
