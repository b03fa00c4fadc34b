// Package client is the door through which service teams hand over delayed
// jobs, and look up, move or cancel them.
//
//	c, err := client.New(client.Options{
//		Sender:     sender,     // an sqsqueue.Queue, or any type with its SendBatch
//		InboundURL: inboundURL, // of the queue myosin-inbound
//		Triggers:   api,        // client.NewHTTP("https://myosin.internal", client.HTTPOptions{})
//		                        // it tells the partition counts too; see Options.Partitions
//	})
//	if err != nil {
//		return err
//	}
//	job, err := c.Schedule(ctx, "payments", map[string]int{"order": 42},
//		client.In(5*time.Minute), client.Name("remind"))
//	if err != nil {
//		return err
//	}
//	// Keep job.Handle: it moves or cancels the job later.
//	_, err = c.Cancel(ctx, job.Handle)
//
// At the due time the payload lands in the queue of the owning service, at
// least once. Consumers deduplicate on the message attribute Myosin-Id.
//
// # Retries of the caller
//
// A Schedule that fails may have been submitted ([ErrUncertain]). Give a [Key]
// and repeat the call: the same service, tenant, key and due time are the same
// job, however often they arrive. The due time must then not depend on the
// moment of the call: give [At], or [In] with the same [Submitted].
//
// # Submitting inside a transaction
//
// [Client.Prepare] builds the row of a job without sending anything. A platform
// role that may write the trigger table puts it beside its own items, so that
// both or neither happen:
//
//	row, job, err := c.Prepare(ctx, "runs", payload, client.At(fireTime))
//	...
//	item, err := triggers.InsertItem(row) // triggers is a *dynamostore.Store
//	...
//	_, err = db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
//		TransactItems: []types.TransactWriteItem{item, mine},
//	})
//	// job.Handle addresses the row as soon as the transaction has committed.
//
// # What it owns, and what it refuses
//
// It owns submission (validation, ids, partition counts, retries) and the rules
// by which a cancel may claim that a job will not be delivered ([Table.Cancel]).
// It refuses whatever the platform could not deliver, with one
// [*trigger.FieldError] for each field at fault, before anything is sent. It
// imports no adapter: queues, tables and the registry come in through small
// interfaces.
//
// Every type here may be used by many goroutines at once.
package client
