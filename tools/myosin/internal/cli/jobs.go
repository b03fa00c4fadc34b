package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func (a *app) jobsCommand() *cobra.Command {
	return a.apiGroup("jobs", "jobs of the managed layer: once or by cron, calling URLs, queues and topics",
		a.jobsCreateCommand(), a.jobsListCommand(), a.jobsGetCommand(),
		a.jobsStatusCommand("pause", "paused", "let no run begin", `Pause a job: no run of it begins. The one that waits is skipped, and what falls
due meanwhile is not made up for. Runs under way, and their further attempts, go
on.`),
		a.jobsStatusCommand("resume", "active", "let runs begin again", `Resume a paused job: its schedule goes on from now. A job of one time that passed
meanwhile does not run: give it another with edit.`),
		a.jobsEditCommand(), a.jobsDeleteCommand(), a.jobsRunCommand())
}

const createHelp = `Create a job: when (--at, --in or --cron), what (--url, --queue or --topic) and,
if it should carry one, a --payload. Prints its id and its next runs.

--file reads the API's create body instead, as JSON; flags beside it replace
what it says. --dry-run prints that body and sends nothing: a start for a file.

--payload is the text itself, @FILE for the contents of a file, @- or - for
standard input, or @@TEXT for text that starts with an at sign.

A repeat with the same --idempotency-key and the same definition, within 24
hours, is the same job. Without the flag a key is made and printed to standard
error, so that a call whose answer was lost can be repeated. Times from now
(--in 5m) are another definition each time: repeat with the --at printed beside.`

func (a *app) jobsCreateCommand() *cobra.Command {
	var (
		def                   jobFlags
		file, tenant, idemKey string
		dry                   bool
		watch                 watchFlags
	)
	cmd := &cobra.Command{
		Use:   "create (--at TIME | --in DURATION | --cron EXPR) (--url URL | --queue SERVICE | --topic ARN)",
		Short: "create a job",
		Long:  createHelp,
		Example: `  myosin jobs create --in 30s --url https://example.com/hooks/report --payload '{"n":1}' --wait
  myosin jobs create --cron "0 9 * * 1-5" --tz Asia/Ho_Chi_Minh --queue payments --label team=pay
  myosin jobs create --file job.json --payload @body.bin --idempotency-key deploy-42`,
		Args: cobra.NoArgs,
	}
	def.add(cmd, false)
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "JSON file with the definition, or - for standard input")
	f.StringVar(&idemKey, "idempotency-key", "", "a repeat with the same key is the same job; default: random")
	f.BoolVar(&dry, "dry-run", false, "print the request's body and send nothing")
	tenantVar(cmd, &tenant)
	watch.add(cmd, "follow the first run to its end")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		if file == "-" && (def.payload == "-" || def.payload == "@-") {
			return usage("--file and --payload: standard input can be read once")
		}
		def.given()
		body := &jobsapi.CreateJob{}
		if file != "" {
			if err := a.readBody(file, body); err != nil {
				return err
			}
			if body.Payload != nil && body.PayloadBase64 == nil {
				body.Payload, body.PayloadBase64 = exactPayload(body.Payload)
			}
		}
		if err := def.apply(a, body, time.Now()); err != nil {
			return err
		}
		if tenant != "" {
			body.Tenant = tenant
		}
		switch {
		case body.Schedule.Type == "":
			return usage("when the job runs is missing: give --at, --in or --cron")
		case body.Target.Type == "":
			return usage("what the job calls is missing: give --url, --queue or --topic")
		case dry:
			return a.out.encode(body)
		}
		if idemKey == "" {
			idemKey = jobsapi.NewIdempotencyKey()
			again := "--idempotency-key " + idemKey
			if def.flags.Changed("in") || def.at.text != "" {
				again += " --at " + body.Schedule.RunAt.Format(time.RFC3339Nano)
			}
			a.out.note("to repeat this call: %s", again)
		}
		j, err := c.CreateJob(ctx, body, idemKey)
		if err != nil {
			return err
		}
		if err := a.printChanged("created", &j); err != nil || !watch.wait {
			return err
		}
		if j.NextRunID == "" {
			return fail(ExitNotRun, "no run is to come: there is nothing to wait for")
		}
		return a.watch(ctx, c, j.NextRunID, &watch, false)
	})
	return cmd
}

// printChanged prints a job after a change of it. Of a job that does not run, its
// schedule is nothing to warn of.
func (a *app) printChanged(what string, j *jobsapi.Job) error {
	now := time.Now()
	lines := []string{what + " " + j.ID}
	if j.Status != "active" {
		lines = append(lines, "status "+j.Status)
	}
	if j.NextRunAt != nil {
		lines = append(lines, "next run "+stampUntil(*j.NextRunAt, now), "run "+j.NextRunID)
	}
	if j.Schedule.Type == "cron" {
		for _, t := range j.FireTimes {
			lines = append(lines, "  "+inZone(t, j.Schedule.TZ))
		}
	}
	if err := a.out.object(j, "%s", strings.Join(lines, "\n")); err != nil {
		return err
	}
	if j.Status == "active" {
		a.warn(j.Warnings)
	}
	return nil
}

// warn tells people what the author of a schedule may not have meant.
func (a *app) warn(warnings []jobsapi.Warning) {
	for _, w := range warnings {
		a.out.note("warning: %s (%s)", visible(w.Message), w.Code)
	}
}

// inZone is a time for people on the wall clock of a zone, with its offset.
func inZone(t time.Time, zone string) string {
	loc, err := cron.LoadZone(zone)
	if err != nil {
		loc = time.UTC
	}
	return t.In(loc).Format("Mon " + time.RFC3339)
}

func (a *app) jobsListCommand() *cobra.Command {
	var (
		p pageFlags
		q jobsapi.List
	)
	cmd := &cobra.Command{
		Use: "list", Short: "list jobs, newest first", Args: cobra.NoArgs,
		Long: "List a tenant's jobs, newest first: active and paused ones unless --status says.",
	}
	p.add(cmd, "jobs", true)
	oneOfVar(cmd, &q.Status, "status", "only those", "active", "paused", "deleted")
	cmd.Flags().StringVarP(&q.Label, "label", "l", "", "only those with this label: name, or name=value")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, _ []string) error {
		jobs, next, err := listed(ctx, a, &p, q, c.Jobs)
		if err != nil {
			return err
		}
		rows := make([][]string, len(jobs))
		for i := range jobs {
			j := &jobs[i]
			upcoming := "-"
			if j.NextRunAt != nil {
				upcoming = stamp(*j.NextRunAt)
			}
			rows[i] = []string{j.ID, j.Status, scheduleText(&j.Schedule), visible(targetText(&j.Target)), upcoming, orDash(visible(j.Name))}
		}
		if err := a.out.table(jobs, "no jobs", "ID STATUS SCHEDULE TARGET NEXT NAME", rows); err != nil {
			return err
		}
		a.more(&p, next)
		return nil
	})
	return cmd
}

func scheduleText(s *jobsapi.Schedule) string {
	if s.Type == "cron" {
		return strings.TrimSpace(visible(s.Expr) + " " + s.TZ)
	}
	return "once " + stamp(s.RunAt)
}

func targetText(t *jobsapi.Target) string {
	switch t.Type {
	case "http":
		return strings.TrimSpace(t.Method + " " + t.URL)
	case "queue":
		return "queue " + t.Service
	}
	return strings.TrimSpace(t.Type + " " + t.ARN)
}

func (a *app) jobsGetCommand() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{Use: "get JOB", Short: "show a job", Args: exactly("JOB"), ValidArgsFunction: a.completeJobs}
	cmd.Flags().BoolVar(&payload, "show-payload", false, "print the payload too")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		j, err := c.Job(ctx, args[0])
		if err != nil {
			return err
		}
		raw := string(j.Payload)
		if raw == "" && j.PayloadBase64 != "" {
			raw = "base64 " + j.PayloadBase64
		}
		if !payload {
			j.Payload, j.PayloadBase64, raw = nil, "", ""
		}
		return a.out.fields(j, jobFields(&j, raw, time.Now())...)
	})
	return cmd
}

func jobFields(j *jobsapi.Job, payload string, now time.Time) [][2]string {
	t := &j.Target
	fields := [][2]string{
		{"job", j.ID}, {"status", j.Status}, {"name", visible(j.Name)}, {"tenant", j.Tenant},
		{"labels", visible(pairs(j.Labels))}, {"schedule", scheduleText(&j.Schedule)},
	}
	if d := j.DST; d != nil {
		fields = append(fields, [2]string{"clock changes", strings.TrimSpace(prefixed("gap ", d.Gap) + " " + prefixed("fold ", d.Fold))})
	}
	fields = append(fields, [][2]string{
		{"target", visible(targetText(t))}, {"headers", visible(pairs(t.Headers))},
		{"call timeout", durationText(t.Timeout)}, {"target group", visible(t.Group)},
		{"retry", retryText(&j.Retry)}, {"overlap", j.Overlap}, {"catch up", strings.TrimSpace(j.CatchUp + " " + durationText(j.CatchUpWindow))},
	}...)
	if j.DelayTolerance != nil {
		fields = append(fields, [2]string{"tolerance", j.DelayTolerance.String()})
	}
	if n := j.Notify; n != nil {
		fields = append(fields, [2]string{"notify", visible(strings.TrimSpace(n.Topic + " " + n.Webhook))})
	}
	if j.PayloadBytes > 0 {
		fields = append(fields, [2]string{"payload", strconv.Itoa(j.PayloadBytes) + " bytes"})
	}
	if payload != "" {
		fields = append(fields, [2]string{"payload", visible(payload)})
	}
	if j.NextRunAt != nil {
		fields = append(fields, [2]string{"next run", stampUntil(*j.NextRunAt, now)}, [2]string{"next run id", j.NextRunID})
	}
	if r := j.LastRun; r != nil {
		fields = append(fields, [2]string{"last run", r.Status + " " + stamp(r.ScheduledAt) + " " + r.ID})
	}
	return append(fields, [][2]string{
		{"created", stamp(j.CreatedAt)}, {"changed", stamp(j.UpdatedAt)},
		{"version", strconv.FormatInt(j.Version, 10) + ", generation " + strconv.FormatInt(j.Generation, 10)},
	}...)
}

func retryText(r *jobsapi.Retry) string {
	text := fmt.Sprintf("%d attempts, waits up to %s, doubled up to %s", r.MaxAttempts, r.Base, r.Max)
	if len(r.Also) > 0 {
		text += fmt.Sprintf("; also after %v", r.Also)
	}
	return text
}

// pairs is a map for people: name=value, by name.
func pairs(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+"="+m[name])
	}
	return strings.Join(out, " ")
}

func durationText(d jobsapi.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// prefixed is a text with a prefix, or nothing.
func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
