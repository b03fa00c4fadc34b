package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// parallel bounds the calls that a command has out at once.
const parallel = 8

func (a *app) triggersCommand() *cobra.Command {
	return a.group("triggers", "stored triggers: list them, and those that could not be delivered",
		a.triggersListCommand(), a.triggersDeadCommand(), a.triggersRedriveCommand())
}

func (a *app) triggersListCommand() *cobra.Command {
	var (
		q        listing
		lane     laneFlag
		from, to timeFlag
	)
	cmd := &cobra.Command{
		Use: "list --service NAME", Short: "list a service's triggers by due time",
		Long: `List triggers, soonest due first: overdue ones and those of the next day unless
--from and --to say otherwise. It reads every row of that time in every
partition, other services' too, because the table is sorted by time alone: on
AWS a long range costs read units.`,
		Example: "  myosin triggers list --service hello --to +1h\n  myosin triggers list --service hello --lane urgent --from 2027-01-01T00:00Z --to 2027-02-01T00:00Z --json",
		Args:    cobra.NoArgs,
	}
	a.serviceFlag(cmd, &q.service, true)
	a.laneVar(cmd, &lane, "standard or urgent; default: both")
	cmd.Flags().Lookup("lane").DefValue = "" // the help's, not the flag's
	cmd.Flags().Var(&from, "from", "least due time; default: the oldest there is")
	cmd.Flags().Var(&to, "to", "greatest due time; default: +1d")
	cmd.Flags().IntVarP(&q.limit, "limit", "n", 100, "most triggers to list")
	cmd.Flags().BoolVar(&q.tombstones, "cancelled", false, "list the tombstones of cancelled and moved triggers too")
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error {
		if err := atLeast("limit", q.limit, 1); err != nil {
			return err
		}
		epochs, err := a.epochs(ctx)
		if err != nil {
			return err
		}
		now := a.platform.Clock.Now()
		q.from = from.at(now, time.UnixMilli(0)).UnixMilli()
		q.to = to.at(now, now.Add(24*time.Hour)).UnixMilli()
		if q.from > q.to {
			return usage("--from %s is after --to", stamp(time.UnixMilli(q.from)))
		}
		lanes := trigger.Lanes[:]
		if cmd.Flags().Changed("lane") {
			lanes = []trigger.Lane{lane.lane}
		}
		return a.list(ctx, &q, lanes, epochs.Max())
	})
	return cmd
}

// headJSON is a listed trigger: what its key and state tell.
type headJSON struct {
	ID      trigger.ID   `json:"id"`
	Handle  string       `json:"handle"`
	Service string       `json:"service"`
	Lane    trigger.Lane `json:"lane"`
	Due     time.Time    `json:"due"`
	State   string       `json:"state"`
}

func (a *app) list(ctx context.Context, q *listing, lanes []trigger.Lane, partitions int) error {
	q.table, q.page = a.platform.Store, a.progressed
	bar := a.progress("partitions read", len(lanes)*partitions)
	rows, more, err := q.read(ctx, lanes, partitions, bar.step)
	bar.end()
	if err != nil {
		return err
	}
	now := a.platform.Clock.Now()
	list := make([]headJSON, len(rows))
	lines := make([][]string, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = headJSON{ID: r.ID, Handle: r.Handle().String(), Service: r.Service, Lane: r.Lane, Due: r.Due, State: r.State.Kind().String()}
		lines[i] = []string{stampUntil(r.Due, now), r.Lane.String(), list[i].State, r.ID.String(), list[i].Handle}
	}
	if err := a.out.table(list, "no triggers", "DUE LANE STATE ID HANDLE", lines); err != nil {
		return err
	}
	if more {
		a.out.note("there are more: --limit %d was reached", q.limit)
	}
	return nil
}

func (a *app) triggersDeadCommand() *cobra.Command {
	var (
		service string
		limit   int
		payload bool
	)
	cmd := &cobra.Command{
		Use: "dead --service NAME", Short: "list triggers that could not be delivered, and why",
		Long: `List dead triggers: those that the service's queue refused for good, or whose
service was gone for a day. They are kept for 14 days; redrive makes them due
again. Messages that a worker gave up on are not here: they lie in the service's
dead-letter queue.`,
		Args: cobra.NoArgs,
	}
	a.serviceFlag(cmd, &service, true)
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "most triggers to list")
	cmd.Flags().BoolVar(&payload, "show-payload", false, "print the payloads too")
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error {
		if err := atLeast("limit", limit, 1); err != nil {
			return err
		}
		table, err := a.table(ctx)
		if err != nil {
			return err
		}
		views, more, err := a.dead(ctx, table, service, limit)
		if err != nil {
			return err
		}
		list := make([]shown, len(views))
		lines := make([][]string, len(views))
		for i, v := range views {
			list[i] = shownOf(v, payload)
			lines[i] = []string{stamp(v.Due), orDash(v.Name), v.Handle, visible(v.Reason)}
			if payload {
				lines[i] = append(lines[i], visible(string(v.Payload)))
			}
		}
		header := "DUE NAME HANDLE REASON"
		if payload {
			header += " PAYLOAD"
		}
		if err := a.out.table(list, "no dead triggers", header, lines); err != nil {
			return err
		}
		if more {
			a.out.note("there are more: --limit %d was reached", limit)
		}
		return nil
	})
	return cmd
}

// dead reads a service's dead triggers, at most limit (0: all).
func (a *app) dead(ctx context.Context, table *client.Table, service string, limit int) (views []client.TriggerView, more bool, err error) {
	if err := trigger.ValidService(service); err != nil {
		return nil, false, &trigger.FieldError{Field: "service", Msg: err.Error()}
	}
	var after *trigger.Key
	for {
		page := 100
		if limit > 0 {
			page = min(page, limit-len(views))
		}
		got, next, err := table.Dead(ctx, service, after, page)
		if err != nil {
			return nil, false, err
		}
		a.progressed()
		views = append(views, got...)
		switch {
		case next == nil:
			return views, false, nil
		case limit > 0 && len(views) >= limit:
			return views, true, nil
		}
		after = next
	}
}

func (a *app) triggersRedriveCommand() *cobra.Command {
	var (
		service  string
		all, yes bool
	)
	cmd := &cobra.Command{
		Use: "redrive (HANDLE… | --service NAME --all)", Short: "make dead triggers due again, now",
		Long: `Redrive dead triggers: each becomes due now, under its id. What killed them should
have been put right before. Nobody knows any more whether an earlier attempt
arrived, so consumers see the id they deduplicate on.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return errors.New("give handles, or --service with --all, not both")
			case all && service == "":
				return errors.New("--all needs --service")
			case !all && len(args) == 0:
				return errors.New("HANDLE is missing (or --service with --all)")
			case !all && service != "":
				return errors.New("--service needs --all; a handle names its service itself")
			}
			return nil
		},
	}
	a.serviceFlag(cmd, &service, false)
	cmd.Flags().BoolVar(&all, "all", false, "every dead trigger of the service")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.run(func(ctx context.Context, args []string) error {
		handles := make([]trigger.Handle, 0, len(args))
		for _, arg := range args {
			h, err := trigger.ParseHandle(arg)
			if err != nil {
				return fmt.Errorf("%s: %w", visible(arg), err)
			}
			handles = append(handles, h)
		}
		table, err := a.table(ctx)
		if err != nil {
			return err
		}
		if all {
			views, _, err := a.dead(ctx, table, service, 0)
			if err != nil {
				return err
			}
			for _, v := range views {
				h, err := trigger.ParseHandle(v.Handle)
				if err != nil {
					return err
				}
				handles = append(handles, h)
			}
			if len(handles) == 0 {
				a.out.note("no dead triggers")
				return nil
			}
		}
		if err := a.confirm(yes, fmt.Sprintf("make %d dead triggers due now?", len(handles))); err != nil {
			return err
		}
		return a.redrive(ctx, table, handles)
	})
	return cmd
}

// redriven is the outcome of one redrive.
type redriven struct {
	ID        trigger.ID `json:"id"`
	Redriven  bool       `json:"redriven"`
	Handle    string     `json:"handle"` // the new one where it was redriven
	Due       time.Time  `json:"due,omitzero"`
	Error     string     `json:"error,omitempty"`
	ErrorCode int        `json:"error_code,omitempty"` // as an exit code
}

func (a *app) redrive(ctx context.Context, table *client.Table, handles []trigger.Handle) error {
	bar := a.progress("redriven", len(handles))
	errs := make([]error, len(handles))
	var printing errgroup.Group // its errors are those of the output alone
	printing.SetLimit(parallel)
	for i, h := range handles {
		printing.Go(func() error {
			risen, err := table.DigUp(ctx, h)
			errs[i] = err
			bar.step()
			r := redriven{ID: h.ID, Redriven: err == nil, Handle: risen.Handle, Due: risen.Due}
			text := "redriven"
			if err != nil {
				r.Handle = h.String()
				r.ErrorCode, r.Error = a.explain(err)
				text = "failed: " + r.Error
			}
			bar.end()
			return a.out.object(r, "%s %s", h.ID, text)
		})
	}
	if err := printing.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redrive: %w", err)
	}
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		code, text := a.explain(failed[0])
		return fail(code, "%d of %d were not redriven; the first: %s", len(failed), len(handles), text)
	}
	a.out.note("%d redriven", len(handles))
	return nil
}
