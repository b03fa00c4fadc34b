package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func (a *app) auditCommand() *cobra.Command {
	return a.apiGroup("audit", "what was changed, and by whom", a.auditListCommand())
}

func (a *app) auditListCommand() *cobra.Command {
	var p pageFlags
	cmd := &cobra.Command{Use: "list", Short: "list the changes made to a tenant's things, newest first", Args: cobra.NoArgs}
	p.add(cmd, "changes", true)
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		records, next, err := listed(ctx, a, &p, jobsapi.List{}, c.Audit)
		if err != nil {
			return err
		}
		rows := make([][]string, len(records))
		for i := range records {
			r := &records[i]
			rows[i] = []string{stamp(r.At), visible(r.Subject), r.Action, visible(r.Object), orDash(visible(r.Detail))}
		}
		if err := a.out.table(records, "no changes", "AT SUBJECT ACTION OBJECT DETAIL", rows); err != nil {
			return err
		}
		a.more(&p, next)
		return nil
	})
	return cmd
}

func (a *app) forecastCommand() *cobra.Command {
	var (
		from     timeFlag
		minutes  int
		services []string
	)
	cmd := &cobra.Command{
		Use: "forecast", Short: "show what is due by minute and service", Args: cobra.NoArgs,
		Long: `Show how many runs and triggers are due, by minute and service. The table leaves
minutes out in which nothing is; JSON has them all.`,
	}
	a.apiFlags(cmd)
	cmd.Flags().Var(&from, "from", "first minute; default: now")
	cmd.Flags().IntVar(&minutes, "minutes", 60, "how many minutes")
	cmd.Flags().StringSliceVarP(&services, "service", "s", nil, "only this service; may be repeated; default: all")
	_ = cmd.RegisterFlagCompletionFunc("service", a.completeServices) // it exists
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		if err := atLeast("minutes", minutes, 1); err != nil {
			return err
		}
		f, err := c.Forecast(ctx, from.at(time.Now(), time.Time{}), minutes, services...)
		if err != nil {
			return err
		}
		if f.Items == nil {
			f.Items = []jobsapi.ForecastSeries{}
		}
		var rows [][]string
		for _, s := range f.Items {
			for _, p := range s.Points {
				if p.Jobs > 0 {
					rows = append(rows, []string{s.Service, p.Minute.UTC().Format("2006-01-02T15:04Z"), strconv.FormatInt(p.Jobs, 10)})
				}
			}
		}
		return a.out.table(f.Items, "nothing is due", "SERVICE MINUTE JOBS", rows)
	})
	return cmd
}
