package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// table returns access to the trigger table, once the clock is known.
func (a *app) table(ctx context.Context) (*client.Table, error) {
	if err := a.reach(ctx); err != nil {
		return nil, err
	}
	return client.NewTable(client.TableOptions{Store: a.platform.Store, Now: a.platform.Clock.Now})
}

// shown is a trigger as this program prints it: a client.TriggerView without
// its payload, unless that was asked for.
type shown struct {
	client.TriggerView
	PayloadBytes int     `json:"payload_bytes"`
	Payload      *string `json:"payload,omitempty"` // hides the view's
	PayloadB64   []byte  `json:"payload_base64,omitempty"`
}

func shownOf(v client.TriggerView, payload bool) shown {
	s := shown{TriggerView: v, PayloadBytes: len(v.Payload)}
	if payload && len(v.Payload) > 0 {
		b := bodyOf(v.Payload)
		s.Payload, s.PayloadB64 = b.Payload, b.PayloadB64
	}
	s.TriggerView.Payload = nil
	return s
}

func (a *app) getCommand() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "get HANDLE",
		Short: "look a trigger up",
		Args:  exactly("HANDLE"),
	}
	cmd.Flags().BoolVar(&payload, "show-payload", false, "print the payload too")
	cmd.RunE = a.run(func(ctx context.Context, args []string) error {
		h, err := trigger.ParseHandle(args[0])
		if err != nil {
			return err
		}
		table, err := a.table(ctx)
		if err != nil {
			return err
		}
		view, err := table.Get(ctx, h)
		if err != nil {
			return err
		}
		return a.printTrigger(view, payload)
	})
	return cmd
}

func (a *app) printTrigger(v client.TriggerView, payload bool) error {
	now := a.platform.Clock.Now()
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		headers = append(headers, name+"="+visible(v.Headers[name]))
	}
	size := fmt.Sprintf("%d bytes", len(v.Payload))
	if payload && len(v.Payload) > 0 {
		size = visible(string(v.Payload))
	}
	return a.out.fields(shownOf(v, payload),
		[2]string{"id", v.ID.String()}, [2]string{"state", v.State}, [2]string{"reason", visible(v.Reason)},
		[2]string{"service", v.Service}, [2]string{"lane", v.Lane.String()},
		[2]string{"due", stampUntil(v.Due, now)}, [2]string{"created", stamp(v.Created)}, [2]string{"expires", stamp(v.Expires)},
		[2]string{"name", v.Name}, [2]string{"tenant", v.Tenant}, [2]string{"group", v.Group},
		[2]string{"headers", strings.Join(headers, " ")}, [2]string{"traceparent", v.Traceparent},
		[2]string{"payload", size}, [2]string{"handle", v.Handle})
}

// cancelled is the answer to a cancel.
type cancelled struct {
	ID trigger.ID `json:"id"`
	client.CancelResult
}

func (a *app) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel HANDLE",
		Short: "keep a trigger from being delivered",
		Long: `Cancel a trigger. Exit code 0 means that it was not delivered and never will be.
Exit code 4 means anything less; the outcome says what: too_late (it will not be
delivered from now on, but may have been), being_delivered (nothing was
changed), or dead (it could not be delivered, and still lies among the dead).`,
		Args: exactly("HANDLE"),
		RunE: a.run(func(ctx context.Context, args []string) error {
			h, err := trigger.ParseHandle(args[0])
			if err != nil {
				return err
			}
			table, err := a.table(ctx)
			if err != nil {
				return err
			}
			res, err := table.Cancel(ctx, h)
			if err != nil {
				return err
			}
			if err := a.out.object(cancelled{ID: h.ID, CancelResult: res}, "%s %s", res.Outcome, h.ID); err != nil {
				return err
			}
			switch res.Outcome {
			case client.OutcomeCancelled:
				return nil
			case client.OutcomeTooLate:
				return fail(ExitConflict, "too late to be sure: it will not be delivered from now on, but it may have been")
			case client.OutcomeBeingDelivered:
				return fail(ExitConflict, "it is being delivered right now; nothing was changed")
			case client.OutcomeDead:
				return fail(ExitConflict, "it is dead: it could not be delivered, and nothing was changed")
			}
			return fail(ExitConflict, "outcome %s", res.Outcome)
		}),
	}
}

func (a *app) rescheduleCommand() *cobra.Command {
	var due dueFlags
	cmd := &cobra.Command{
		Use:   "reschedule HANDLE (--in DURATION | --at TIME)",
		Short: "move a trigger to another due time",
		Long: `Move a trigger that still waits. Prints its new handle; the old one goes on
working. A trigger that is being delivered, was cancelled or is dead is a
conflict (exit code 4).`,
		Args: exactly("HANDLE"),
	}
	due.add(cmd)
	cmd.RunE = a.run(func(ctx context.Context, args []string) error {
		h, err := trigger.ParseHandle(args[0])
		if err != nil {
			return err
		}
		table, err := a.table(ctx)
		if err != nil {
			return err
		}
		now := a.platform.Clock.Now()
		to := due.at.at(now, now)
		if due.isIn {
			to = now.Add(due.in)
		}
		moved, err := table.Reschedule(ctx, h, to)
		if err != nil {
			return err
		}
		return a.printScheduled("moved", moved)
	})
	return cmd
}
