// Package worker is the consumer runtime of an owning service: it receives
// delivered jobs from the service's SQS queue, hands each to the handler
// registered for its name, and deletes, retries or dead-letters it as the
// handler's result says.
//
//	w, err := worker.New(worker.Options{
//		Receiver: queues, // sqsqueue, or anything with Receive, Delete, ChangeVisibility
//		QueueURL: "https://sqs.us-east-1.amazonaws.com/123456789012/myosin-svc-payments",
//	})
//	if err != nil {
//		return err
//	}
//	type reminder struct {
//		Invoice string `json:"invoice"`
//	}
//	worker.Handle(w, "remind", func(ctx context.Context, job worker.Job[reminder]) error {
//		return mailer.Remind(ctx, job.Payload.Invoice)
//	})
//	return w.Run(ctx) // until ctx ends
//
// Delivery is at least once. A handler that must not act twice deduplicates on
// [Job].ID, never on the SQS message id, which a redrive changes.
//
// # Results
//
// nil deletes the message. An error makes it visible again after a backoff
// that grows with the receive count; after the queue's maxReceiveCount, SQS
// moves it to the dead-letter queue. [RetryAfter] chooses the delay, [Drop]
// deletes, [DeadLetter] gives up at once. A panic is an error. So is a job name
// without a handler and a payload that does not decode ([*PayloadError]):
// another version of the service may know what to do.
//
// With Options.DeadLetterURL, what is dead-lettered (and a message that is not
// a delivered job at all) is sent there with the attribute [AttrReason], then
// deleted. Without it, or when the send is refused or keeps failing, the message
// is retried with backoff until the queue's redrive policy takes it: never at
// once, since on a queue without such a policy that would be a hot loop.
//
// # Holding messages
//
// Buffered and running messages have their visibility extended in batches from
// a third of it on, so slow handlers and deep buffers make no duplicates. A
// receipt that became invalid cancels the handler's context with [ErrLost]. SQS
// allows 12 hours from the receive; at Options.MaxAge the worker logs an error,
// counts it, and cancels the context with [ErrTooOld].
//
// Deletes are batched. One that fails is retried while the message is kept
// invisible, until it succeeds, MaxAge comes or the worker stops: a finished job
// runs again only if its delete fails for that long. Polling pauses while many
// such deletes are outstanding.
//
// # FIFO queues
//
// On a queue whose name ends in ".fifo", the messages of a group run one after
// the other. When one is not finished (retried, lost), the buffered ones behind
// it are released with it, so that order is kept. A release costs a receive: the
// worker then receives one message at a time until that group moves on, but with
// many processes give a FIFO queue a generous maxReceiveCount, or dead-letter
// poison messages explicitly.
//
// # Stopping
//
// When Run's context ends or [Worker.Stop] is called, polling stops, buffered
// messages are made visible at once, and a long poll under way may end by itself
// (cutting it could strand messages already on their way); what it brings is
// made visible at once too. That costs those messages a receive, one more reason to
// keep maxReceiveCount at 5 or above. Running handlers keep going. Shortly before Options.Grace has passed,
// their contexts are cancelled with [ErrStopping]; those that return an error,
// and those that do not return, have their messages made visible. Run returns
// within Grace. Finished messages whose delete failed to the end keep
// their visibility: showing them sooner would only make the duplicate certain.
//
// This package imports no adapter and refuses everything that is not
// consuming: it schedules nothing. Register handlers and middleware before Run;
// after that a Worker is safe for concurrent use.
package worker
