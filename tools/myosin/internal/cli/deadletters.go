package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func (a *app) deadLettersCommand() *cobra.Command {
	g := a.apiGroup("dlq", "dead runs of jobs: list and repeat them", a.deadListCommand(), a.deadRedriveCommand())
	g.Long = `Dead runs: those that used up their attempts, or that their target refused.

Dead triggers of the core, which could not be delivered to a service's queue, are
under "triggers dead" and "triggers redrive"; submissions that were refused are
under "inbound dlq".`
	return g
}

// deadFilter is which dead runs are meant.
type deadFilter struct {
	job, tenant string
	from, until timeFlag
}

func (d *deadFilter) add(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.job, "job", "", "only those of this job")
	_ = cmd.RegisterFlagCompletionFunc("job", a.completeJobs) // it exists
	f.Var(&d.from, "from", "only those that died then or later, such as -2h")
	f.Var(&d.until, "until", "only those that died before")
}

// query returns the filter as the API takes it.
func (d *deadFilter) query(now time.Time) (jobsapi.List, error) {
	q := jobsapi.List{Job: d.job, From: d.from.at(now, time.Time{}), Until: d.until.at(now, time.Time{})}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until) {
		return q, usage("--from: want a time before --until")
	}
	return q, nil
}

func (a *app) deadListCommand() *cobra.Command {
	var (
		p       pageFlags
		d       deadFilter
		payload bool
	)
	cmd := &cobra.Command{
		Use: "list", Short: "list dead runs that were not redriven, newest death first", Args: cobra.NoArgs,
	}
	p.add(cmd, "dead runs", true)
	d.add(a, cmd)
	cmd.Flags().BoolVar(&payload, "show-payload", false, "print the payloads too")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		q, err := d.query(time.Now())
		if err != nil {
			return err
		}
		return a.listDead(ctx, c, &p, q, payload)
	})
	return cmd
}

func (a *app) listDead(ctx context.Context, c *jobsapi.Client, p *pageFlags, q jobsapi.List, payload bool) error {
	dead, next, err := listed(ctx, a, p, q, c.DeadLetters)
	if err != nil {
		return err
	}
	header := "DIED SCHEDULED RUN JOB ATTEMPT ERROR"
	if payload {
		header += " PAYLOAD"
	}
	rows := make([][]string, len(dead))
	for i := range dead {
		d := &dead[i]
		rows[i] = []string{
			orDash(ended(d.EndedAt)), stamp(d.ScheduledAt), d.ID, d.Job, strconv.Itoa(d.Attempt), orDash(visible(d.LastError)),
		}
		if payload {
			rows[i] = append(rows[i], visible(string(d.Payload)+prefixed("base64 ", d.PayloadBase64)))
		} else {
			d.Payload, d.PayloadBase64 = nil, ""
		}
	}
	if err := a.out.table(dead, "no dead runs", header, rows); err != nil {
		return err
	}
	a.more(p, next)
	return nil
}

func (a *app) deadRedriveCommand() *cobra.Command {
	var (
		d        deadFilter
		all, yes bool
		dry      bool
	)
	cmd := &cobra.Command{
		Use: "redrive (RUN… | --job JOB | --from TIME | --until TIME | --all)", Short: "repeat dead runs",
		Long: `Repeat dead runs, by their ids or by a filter: each becomes a run of its own that
is due now, and carries the id of the run it repeats as its idempotency key. What
killed them should have been put right before. Prints an outcome each.

A redrive that was broken off can be repeated: what was redriven is no longer
dead. --dry-run lists what would be repeated and changes nothing.`,
		Example: `  myosin dlq redrive --job 5d61394f… --from -2h --dry-run
  myosin dlq redrive --all --yes`,
	}
	d.add(a, cmd)
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "a", false, "all of the tenant's")
	f.BoolVar(&dry, "dry-run", false, "list them, and repeat none")
	tenantVar(cmd, &d.tenant)
	yesVar(cmd, &yes)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		filtered := d.job != "" || d.from.text != "" || d.until.text != ""
		switch {
		case len(args) > 0 && (filtered || all || d.tenant != ""):
			return errors.New("give ids of runs, or a filter, not both")
		case len(args) == 0 && !filtered && !all:
			return errors.New("say which: ids of runs, --job, --from, --until or --all")
		case all && filtered:
			return errors.New("--all: the filter says less than all; give one of the two")
		case slices.Contains(args, ""):
			return errors.New("RUN is empty")
		}
		return nil
	}
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		q, err := d.query(time.Now())
		switch {
		case err != nil:
			return err
		case dry && len(args) > 0:
			return a.dryRedrive(ctx, c, args)
		case dry:
			return a.listDead(ctx, c, &pageFlags{limit: apiPage, all: true, tenant: d.tenant}, q, false)
		}
		if err := a.confirm(yes, redriveQuestion(&d, args)); err != nil {
			return err
		}
		r := repeats{app: a, client: c, bar: a.progress("redriven", len(args))}
		err = r.all(ctx, args, jobsapi.Redrive{Tenant: d.tenant, Job: q.Job, From: q.From, Until: q.Until, All: all})
		r.bar.end()
		return r.summary(err)
	})
	return cmd
}

func redriveQuestion(d *deadFilter, runs []string) string {
	if len(runs) > 0 {
		return fmt.Sprintf("repeat %d dead runs?", len(runs))
	}
	return "repeat all dead runs" + prefixed(" of job ", visible(d.job)) + prefixed(" of tenant ", visible(d.tenant)) +
		prefixed(" that died from ", d.from.text) + prefixed(" until ", d.until.text) + "?"
}

// dryRedrive shows the runs of the given ids, and fails where one is not dead.
func (a *app) dryRedrive(ctx context.Context, c *jobsapi.Client, ids []string) error {
	runs := make([]jobsapi.Run, 0, len(ids))
	var odd []string
	rows := make([][]string, 0, len(ids))
	for _, id := range ids {
		r, err := c.Run(ctx, id)
		if err != nil {
			return fmt.Errorf("%s: %w", visible(id), err)
		}
		a.progressed()
		status := r.Status
		if r.RedrivenAs != "" {
			status += " (redriven)"
		}
		if status != "DEAD" {
			odd = append(odd, id+" is "+status)
		}
		runs = append(runs, r)
		rows = append(rows, []string{orDash(ended(r.EndedAt)), stamp(r.ScheduledAt), r.ID, r.Job, status, orDash(visible(r.Reason))})
	}
	if err := a.out.table(runs, "no dead runs", "DIED SCHEDULED RUN JOB STATUS REASON", rows); err != nil {
		return err
	}
	if len(odd) > 0 {
		return fail(ExitConflict, "not to be redriven: %s", strings.Join(odd, ", "))
	}
	return nil
}

// repeated is the outcome of one redrive.
type repeated struct {
	Run      string `json:"run"`
	Redriven bool   `json:"redriven"`
	As       string `json:"redriven_as,omitempty"`
	Code     string `json:"code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// repeats redrives dead runs.
type repeats struct {
	app    *app
	client *jobsapi.Client
	bar    *progress

	done, failed int
	first        *jobsapi.Failed
}

// all redrives the given runs in batches, or what the filter means.
func (r *repeats) all(ctx context.Context, ids []string, filter jobsapi.Redrive) error {
	if len(ids) == 0 {
		return r.pages(ctx, filter)
	}
	for batch := range slices.Chunk(ids, apiPage) {
		if err := r.pages(ctx, jobsapi.Redrive{Runs: batch}); err != nil {
			return err
		}
	}
	return nil
}

func (r *repeats) pages(ctx context.Context, body jobsapi.Redrive) error {
	for {
		answer, err := r.client.Redrive(ctx, &body)
		if err != nil {
			return err
		}
		r.app.progressed()
		for _, one := range answer.Redriven {
			if err := r.tell(repeated{Run: one.Run, Redriven: true, As: one.As}, "redriven as "+one.As); err != nil {
				return err
			}
			r.done++
		}
		for _, one := range answer.Failed {
			if err := r.tell(repeated{Run: one.Run, Code: one.Code, Error: one.Message}, "failed: "+visible(one.Message)); err != nil {
				return err
			}
			r.failed++
			r.first = cmp.Or(r.first, &one)
		}
		if answer.NextCursor == "" {
			return nil
		}
		body.Cursor = answer.NextCursor
	}
}

func (r *repeats) tell(v repeated, text string) error {
	r.bar.step()
	r.bar.end()
	return r.app.out.object(v, "%s %s", v.Run, text)
}

// summary says how it went; err is what broke it off.
func (r *repeats) summary(err error) error {
	total := r.done + r.failed
	switch {
	case err != nil && total > 0:
		r.app.out.note("broken off: %d redriven, %d not; repeat it for the rest", r.done, r.failed)
		return err
	case err != nil:
		return err
	case r.failed > 0:
		code := map[string]int{"not_found": ExitNotFound, "conflict": ExitConflict, "unavailable": ExitUnavailable}[r.first.Code]
		return fail(cmp.Or(code, ExitFailed), "%d of %d were not redriven; the first: %s: %s", r.failed, total, r.first.Run, visible(r.first.Message))
	case total == 0:
		r.app.out.note("no dead runs")
	default:
		r.app.out.note("%d redriven", r.done)
	}
	return nil
}
