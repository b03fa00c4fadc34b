package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// ifVersionVar adds --if-version.
func ifVersionVar(cmd *cobra.Command, p *int64, what string) {
	cmd.Flags().Int64Var(p, "if-version", 0, "only if "+what+" is still of this version, as get tells it; 0: whatever it is")
}

func (a *app) jobsStatusCommand(use, status, short, long string) *cobra.Command {
	var version int64
	cmd := &cobra.Command{Use: use + " JOB", Short: short, Long: long, Args: exactly("JOB"), ValidArgsFunction: a.completeJobs}
	ifVersionVar(cmd, &version, "the job")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		j, err := c.PatchJob(ctx, args[0], version, &jobsapi.PatchJob{Status: &status})
		if err != nil {
			return a.uncertain(err)
		}
		return a.printChanged(use+"d", &j)
	})
	return cmd
}

func (a *app) jobsEditCommand() *cobra.Command {
	var (
		def     jobFlags
		file    string
		version int64
	)
	cmd := &cobra.Command{
		Use: "edit JOB", Short: "change a job",
		Long: `Change a job: each flag replaces what it names and leaves the rest alone. Labels
and headers are added to those there are, or taken away by --remove-label and
--remove-header. The change is made only if nobody else changed the job between
its being read and written (exit code 4).

--file sends the API's patch body instead, as JSON: what it names is replaced,
whole objects included.

A change of schedule cancels the run that waits and plans another. Runs that have
begun go on; their further attempts use the new target.`,
		Example: `  myosin jobs edit 5d61394f… --cron "30 9 * * 1-5"
  myosin jobs edit 5d61394f… --retry-max 10 --label team=pay --remove-label trial
  myosin jobs edit 5d61394f… --file patch.json --if-version 3`,
		Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
	}
	def.add(cmd, true)
	cmd.Flags().StringVarP(&file, "file", "f", "", "JSON file with what changes, or - for standard input")
	ifVersionVar(cmd, &version, "the job")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		patch := &jobsapi.PatchJob{}
		switch given := def.given(); {
		case file != "" && given:
			return usage("give --file, or flags that change something, not both")
		case file != "":
			if err := a.readBody(file, patch); err != nil {
				return err
			}
			if patch.Payload != nil && patch.PayloadBase64 == nil {
				patch.Payload, patch.PayloadBase64 = exactPayload(patch.Payload)
			}
		case !given:
			return usage("nothing to change: give a flag, or --file")
		default:
			was, err := c.Job(ctx, args[0])
			if err != nil {
				return err
			}
			a.progressed()
			if version == 0 {
				version = was.Version
			}
			body := definition(&was)
			if err := def.apply(a, body, time.Now()); err != nil {
				return err
			}
			patch = def.patch(body)
		}
		j, err := c.PatchJob(ctx, args[0], version, patch)
		if err != nil {
			return a.uncertain(err)
		}
		return a.printChanged("changed", &j)
	})
	return cmd
}

func (a *app) jobsDeleteCommand() *cobra.Command {
	var (
		version int64
		yes     bool
	)
	cmd := &cobra.Command{
		Use: "delete JOB", Short: "end a job for good", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		Long: `Delete a job: it cannot be resumed. Runs that wait are cancelled; its history
stays readable as long as it is kept.`,
	}
	ifVersionVar(cmd, &version, "the job")
	yesVar(cmd, &yes)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		if err := a.confirm(yes, "delete job "+visible(args[0])+" for good?"); err != nil {
			return err
		}
		j, err := c.DeleteJob(ctx, args[0], version)
		if err != nil {
			return a.uncertain(err)
		}
		return a.printChanged("deleted", &j)
	})
	return cmd
}

func yesVar(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVarP(p, "yes", "y", false, "do not ask")
}

func (a *app) jobsRunCommand() *cobra.Command {
	var watch watchFlags
	cmd := &cobra.Command{
		Use: "run JOB", Short: "run a job now, beside its schedule", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs,
		Long: `Run a job now, beside its schedule. Each call is a run. With --wait the exit code
is that of its outcome, as "runs watch" says.`,
	}
	watch.add(cmd, "follow the run to its end")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		r, err := c.RunJob(ctx, args[0])
		if err != nil {
			return a.uncertain(err)
		}
		if err := a.out.object(r, "run %s", r.ID); err != nil || !watch.wait {
			return err
		}
		return a.watch(ctx, c, r.ID, &watch, false)
	})
	return cmd
}
