package client

import (
	"context"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Triggers looks up, moves and cancels triggers. [NewHTTP] makes one for owning
// services, [NewTable] one for platform roles that may use the table itself.
type Triggers interface {
	// Cancel tries to keep a trigger from being delivered, and says how far it came.
	Cancel(ctx context.Context, h trigger.Handle) (CancelResult, error)
	// Reschedule moves a trigger to another due time. The old handle goes on
	// working. Errors: *ConflictError, ErrNotStored, *trigger.FieldError.
	Reschedule(ctx context.Context, h trigger.Handle, due time.Time) (Scheduled, error)
	// Get looks a trigger up; ErrNotFound if it is not (or no longer) stored.
	Get(ctx context.Context, h trigger.Handle) (TriggerView, error)
}

// Outcome is what a cancel achieved.
type Outcome string

// The outcomes of a cancel.
const (
	// OutcomeCancelled: it was not delivered, and will not be.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeTooLate: it will not be delivered from now on, but it may have been.
	OutcomeTooLate Outcome = "too_late"
	// OutcomeBeingDelivered: a process is sending it now; nothing was changed.
	OutcomeBeingDelivered Outcome = "being_delivered"
	// OutcomeDead: it could not be delivered and lies among the dead; left there.
	OutcomeDead Outcome = "dead"
)

// CancelResult is the answer to a cancel, in Go and as the JSON body of the API.
type CancelResult struct {
	Outcome Outcome `json:"outcome"`
	// State is the state the trigger is left in, as in [TriggerView].
	State string `json:"state"`
	// Due is the due time of the row that was found; a moved trigger has another
	// one than its first handle.
	Due time.Time `json:"due"`
}

// Scheduled is a job that was accepted, in Go and as a JSON body of the API.
type Scheduled struct {
	ID trigger.ID `json:"id"`
	// Handle looks up, moves or cancels the job. About 60 characters; opaque.
	Handle string    `json:"handle"`
	Due    time.Time `json:"due"` // UTC, whole milliseconds
}

// TriggerView is a stored trigger as callers see it, in Go and as the JSON body
// of the API. A cancelled trigger has kept its id, service and times alone.
type TriggerView struct {
	ID          trigger.ID        `json:"id"`
	Handle      string            `json:"handle"` // of the row found; another than the one asked with after a move
	Service     string            `json:"service"`
	Lane        trigger.Lane      `json:"lane"`
	Due         time.Time         `json:"due"`
	State       string            `json:"state"` // a name of trigger.Kind: "scheduled", "acquired", "cancelled", …
	Name        string            `json:"name,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Group       string            `json:"group,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	Payload     []byte            `json:"payload,omitempty"` // base64 in JSON
	Reason      string            `json:"reason,omitempty"`  // why it is dead
	Created     time.Time         `json:"created,omitzero"`
	Expires     time.Time         `json:"expires,omitzero"` // when the record may be deleted
}

// ViewOf returns the view of a row.
func ViewOf(row *store.Row) TriggerView {
	return TriggerView{
		ID: row.ID, Handle: row.Handle().String(), Service: row.Service, Lane: row.Lane, Due: row.Due,
		State: row.State.Kind().String(), Name: row.Name, Tenant: row.Tenant, Group: row.Group,
		Headers: row.Headers, Traceparent: row.Traceparent, Payload: row.Payload,
		Reason: row.Reason, Created: row.Created, Expires: row.Expires,
	}
}

func scheduledOf(t *trigger.Trigger) Scheduled {
	return Scheduled{ID: t.ID, Handle: t.Handle().String(), Due: t.Due}
}
