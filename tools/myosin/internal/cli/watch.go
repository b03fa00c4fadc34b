package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// Polls of a run that is watched: soon after a change, then ever more rarely.
const (
	pollFirst = 250 * time.Millisecond
	pollMost  = 5 * time.Second
)

type watchFlags struct {
	wait  bool
	limit time.Duration
}

func (w *watchFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVarP(&w.wait, "wait", "w", false, usage+"; the exit code is its outcome")
	w.addFor(cmd)
}

func (w *watchFlags) addFor(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &w.limit, "for", 0, "wait no longer than this for the end; default: as long as it takes")
}

var errWatched = errors.New("watched for long enough")

// watch follows a run to its end and returns what its outcome is as an error.
// changes says that each change is printed; else people see the last state and
// scripts the last object.
func (a *app) watch(ctx context.Context, c *jobsapi.Client, id string, w *watchFlags, changes bool) error {
	if w.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.limit, errWatched)
		defer cancel()
	}
	most := pollMost
	if a.patience > 0 { // a poll in time is progress
		most = min(most, a.patience/2)
	}
	var last jobsapi.Run
	gone := false
	for wait := pollFirst; ; wait = min(wait*3/2, most) {
		r, err := c.Run(ctx, id)
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case errors.Is(context.Cause(ctx), errWatched):
			return fail(ExitUnavailable, "run %s has not ended after %s (--for)%s", id, w.limit, prefixed(": it is ", last.Status))
		case err != nil && ctx.Err() == nil && a.again(err):
			if !gone {
				a.out.note("myosin: %v; asking again", a.readable(a.apiError(err)))
			}
			gone = true
		case err != nil:
			return err
		default:
			gone = false
			a.progressed()
			over := r.EndedAt != nil || finished(r.Status)
			if moved(&last, &r) {
				wait = pollFirst
				last = r
				if changes || over && a.out.json {
					if err := a.out.object(r, "%s %s", stamp(time.Now()), changeText(&r)); err != nil {
						return err
					}
				} else {
					a.out.note("%s", changeText(&r))
				}
			}
			if over {
				return outcome(&r)
			}
		}
		pause(ctx, min(wait, most))
	}
}

// again tells whether an error is one of those that pass.
func (a *app) again(err error) bool {
	code, _ := a.explain(a.apiError(err))
	return code == ExitUnavailable
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func finished(status string) bool {
	switch status {
	case "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED":
		return true
	}
	return false
}

// moved tells whether a run changed in a way that a person wants to see.
func moved(was, is *jobsapi.Run) bool {
	return was.Status != is.Status || was.Attempt != is.Attempt || was.Failures != is.Failures || was.Crashes != is.Crashes ||
		was.Deferrals != is.Deferrals || was.Accepted != is.Accepted || was.CancelRequested != is.CancelRequested
}

func changeText(r *jobsapi.Run) string {
	text := r.Status
	if r.Attempt > 0 {
		text += fmt.Sprintf(" attempt %d", r.Attempt)
	}
	if r.Accepted && !finished(r.Status) {
		text += ", accepted by its target"
	}
	if r.CancelRequested && !finished(r.Status) {
		text += ", asked to stop"
	}
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Error != "" && r.Status != "RUNNING" {
		text += ", " + visible(r.Attempts[n-1].Error)
	} else {
		text += prefixed(", ", visible(whyText(r)))
	}
	if r.NotBefore != nil {
		text += ", not before " + stamp(*r.NotBefore)
	}
	return text
}

// outcome is how a run ended, as an error.
func outcome(r *jobsapi.Run) error {
	why := prefixed(": ", visible(whyText(r)))
	switch r.Status {
	case "SUCCEEDED":
		return nil
	case "CANCELLED", "SKIPPED":
		return fail(ExitNotRun, "run %s is %s%s", r.ID, r.Status, why)
	}
	return fail(ExitFailed, "run %s is %s%s", r.ID, r.Status, why)
}
