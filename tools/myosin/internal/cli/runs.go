package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

func (a *app) runsCommand() *cobra.Command {
	return a.apiGroup("runs", "runs of jobs, and what became of them",
		a.runsListCommand(), a.runsGetCommand(), a.runsCancelCommand(), a.runsWatchCommand())
}

func (a *app) runsListCommand() *cobra.Command {
	var (
		p pageFlags
		q jobsapi.List
	)
	cmd := &cobra.Command{Use: "list JOB", Short: "list a job's runs, newest first", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs}
	p.add(cmd, "runs", false)
	oneOfVar(cmd, &q.Status, "status", "only those",
		"SCHEDULED", "QUEUED", "RUNNING", "RETRY", "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		runs, next, err := listed(ctx, a, &p, q, func(ctx context.Context, l jobsapi.List) (jobsapi.Page[jobsapi.Run], error) {
			return c.Runs(ctx, args[0], l)
		})
		if err != nil {
			return err
		}
		rows := make([][]string, len(runs))
		for i := range runs {
			r := &runs[i]
			rows[i] = []string{stamp(r.ScheduledAt), r.Status, r.Kind, strconv.Itoa(r.Attempt), orDash(ended(r.EndedAt)), r.ID, orDash(visible(whyText(r)))}
		}
		if err := a.out.table(runs, "no runs", "SCHEDULED STATUS KIND ATTEMPT ENDED RUN REASON", rows); err != nil {
			return err
		}
		a.more(&p, next)
		return nil
	})
	return cmd
}

func ended(t *time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(*t)
}

// whyText says why a run stands where it stands.
func whyText(r *jobsapi.Run) string {
	if s := r.Skipped; s != nil && s.Count > 1 {
		return fmt.Sprintf("%s (%d, until %s)", r.Reason, s.Count, stamp(s.Until))
	}
	if r.RedrivenAs != "" {
		return cmp.Or(r.Reason, "failed") + " (redriven)"
	}
	return r.Reason
}

func (a *app) runsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get RUN", Short: "show a run with its attempts", Args: exactly("RUN"),
		RunE: a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
			r, err := c.Run(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printRun(&r)
		}),
	}
}

func (a *app) printRun(r *jobsapi.Run) error {
	now := time.Now()
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return stampUntil(*t, now)
	}
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	flag := func(set bool, text string) string {
		if set {
			return text
		}
		return ""
	}
	fields := [][2]string{
		{"run", r.ID}, {"job", r.Job}, {"tenant", r.Tenant}, {"status", r.Status}, {"reason", visible(whyText(r))}, {"kind", r.Kind},
		{"scheduled", stampUntil(r.ScheduledAt, now)}, {"attempt", strconv.Itoa(r.Attempt)}, {"failures", count(r.Failures)},
		{"crashes", count(r.Crashes)}, {"deferrals", count(r.Deferrals)}, {"not before", at(r.NotBefore)}, {"lease until", at(r.LeaseUntil)},
		{"accepted", flag(r.Accepted, "yes: the target completes it")}, {"cancel", flag(r.CancelRequested, "requested")},
		{"ended", at(r.EndedAt)}, {"repeats", r.OriginalRun}, {"redriven as", r.RedrivenAs},
	}
	for i := range r.Attempts {
		t := &r.Attempts[i]
		text := stamp(t.Start)
		if t.End != nil {
			text += ", " + when.Short(t.End.Sub(t.Start))
		} else {
			text += ", under way"
		}
		if t.StatusCode != 0 {
			text += ", status " + strconv.Itoa(t.StatusCode)
		}
		text += prefixed(", ", visible(t.Error)) + prefixed(", answered ", visible(t.Response))
		fields = append(fields, [2]string{"attempt " + strconv.Itoa(t.Number), text})
	}
	return a.out.fields(r, fields...)
}

func (a *app) runsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN", Short: "end a run that waits, or ask a running one to stop", Args: exactly("RUN"),
		Long: `Cancel a run. One that waits ends at once and is never begun; a running one is
asked to stop at its next heartbeat, and is not tried again.`,
		RunE: a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
			r, err := c.CancelRun(ctx, args[0])
			if err != nil {
				return err
			}
			what := "cancelled"
			if r.Status != "CANCELLED" {
				what = "asked to stop"
			}
			return a.out.object(r, "%s %s", what, r.ID)
		}),
	}
}

func (a *app) runsWatchCommand() *cobra.Command {
	var watch watchFlags
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "follow a run to its end", Args: exactly("RUN"),
		Long: `Follow a run: a line for each change until it ends, with --json an object each.
While the API cannot be reached it is asked again, until --timeout.

The exit code is the run's: 0 it succeeded, 1 it is dead, 8 it was cancelled or
skipped; 6 where --for or --timeout ended the watch before.`,
	}
	watch.addFor(cmd)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		return a.watch(ctx, c, args[0], &watch, true)
	})
	return cmd
}
