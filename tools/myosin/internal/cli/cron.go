package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

// maxPreview bounds the fire times of one preview.
const maxPreview = 10000

func (a *app) cronCommand() *cobra.Command {
	return a.group("cron", "cron expressions, without any service", a.cronPreviewCommand())
}

type previewFlags struct {
	zone, gap, fold string
	from            timeFlag
	count           int
}

// previewJSON is what an expression means.
type previewJSON struct {
	Expr     string         `json:"expr"`
	TZ       string         `json:"tz"`
	Fires    []fireJSON     `json:"fires"`
	Warnings []cron.Warning `json:"warnings"`
}

// fireJSON is one line of a preview.
type fireJSON struct {
	// Kind is run, skipped (wall times of a gap that do not run) or transition (the
	// clock changes here).
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`    // UTC
	Local  string    `json:"local"` // RFC 3339 on the zone's clock
	Offset string    `json:"offset"`
	Abbrev string    `json:"abbreviation"`
	Note   string    `json:"note,omitempty"`
}

func (a *app) cronPreviewCommand() *cobra.Command {
	var p previewFlags
	cmd := &cobra.Command{
		Use: "preview EXPR", Short: "show when a cron expression fires", Args: exactly("EXPR"),
		Long: `Show the next times at which a cron expression fires, on its zone's clock and in
UTC, as the runner would have them. It asks no service. Changes of the clock in
between are lines of their own, and what they do to the schedule is noted.

Expressions have five fields (minute, hour, day of month, month, day of week), or
are @daily and the like; L, L-n, 5#3 and 5L are known. Expressions with a * or a
step for the hour follow real time: --gap and --fold do not concern them.`,
		Example: `  myosin cron preview "30 2 * * *" --tz Europe/Berlin --from 2027-03-26T00:00:00Z
  myosin cron preview "0 9 * * 1-5" --tz Asia/Ho_Chi_Minh --count 10 -o json`,
	}
	f := cmd.Flags()
	f.StringVar(&p.zone, "tz", "UTC", "zone of the tz database, such as Asia/Ho_Chi_Minh")
	f.Var(&p.from, "from", "fire times after this, such as 2027-03-26T00:00:00Z or \"in 30d\"; default: now")
	f.IntVarP(&p.count, "count", "n", 5, "how many runs")
	policyFlags(cmd, &p.gap, &p.fold)
	cmd.RunE = a.run(func(_ context.Context, args []string) error { return a.preview(args[0], &p) })
	return cmd
}

func (a *app) preview(text string, p *previewFlags) error {
	if err := atLeast("count", p.count, 1); err != nil {
		return err
	}
	if p.count > maxPreview {
		return usage("--count %d: want %d or less", p.count, maxPreview)
	}
	expr, err := cron.Parse(text)
	if err != nil {
		return fail(ExitRefused, "EXPR: %w", err)
	}
	zone, err := cron.LoadZone(p.zone)
	if err != nil {
		return fail(ExitRefused, "--tz: %w", err)
	}
	policy := cron.Policy{Gap: cron.Gap(p.gap), Fold: cron.Fold(p.fold)}
	s, err := cron.New(expr, zone, policy)
	if err != nil {
		return fail(ExitRefused, "%w", err)
	}
	now := time.Now()
	from := p.from.at(now, now)
	v := previewJSON{Expr: expr.String(), TZ: zone.String(), Fires: fires(s, zone, policy, from, p.count), Warnings: s.Warnings(from)}
	if v.Warnings == nil {
		v.Warnings = []cron.Warning{}
	}
	rows := make([][]string, 0, len(v.Fires))
	n := 0
	for _, one := range v.Fires {
		number := "-"
		if one.Kind == "run" {
			n++
			number = strconv.Itoa(n)
		}
		local := one.At.In(zone).Format("Mon 2006-01-02 15:04:05 -07:00")
		rows = append(rows, []string{number, local, one.Abbrev, one.At.Format(time.RFC3339), orDash(one.Note)})
	}
	if err := a.out.table(v, "it does not fire any more", "# LOCAL ZONE UTC NOTE", rows); err != nil {
		return err
	}
	if !a.out.json {
		a.warn(v.Warnings)
	}
	return nil
}

// fires returns the next n runs after an instant, with what is skipped and with
// the clock's changes between them.
func fires(s *cron.Schedule, zone *time.Location, policy cron.Policy, from time.Time, n int) []fireJSON {
	out := []fireJSON{}
	at := from
	for runs := 0; runs < n; {
		o := s.Next(at)
		if o.At.IsZero() {
			return out
		}
		out = append(out, changes(zone, at, o.At)...)
		kind, note := "run", foldNote(o.At, zone)
		switch {
		case o.Skipped:
			kind, note = "skipped", "skipped: the clock jumps over "+wallTimes(o.Gap)
		case o.Gap > 0 && policy.Gap == cron.GapSkip:
			note = "skipped before it: the clock jumps over " + wallTimes(o.Gap)
		case o.Gap > 0:
			note = "gap: the clock jumps over " + wallTimes(o.Gap) + ", which run here, once"
		}
		out = append(out, fireOf(kind, o.At, zone, note))
		if !o.Skipped {
			runs++
		}
		at = o.At
	}
	return out
}

// manyChanges is how many changes of the clock between two runs are told one by
// one; more are told in one line.
const manyChanges = 3

// changes are the changes of a zone's clock after one instant, until another.
func changes(zone *time.Location, after, until time.Time) []fireJSON {
	var out []fireJSON
	for {
		_, change := after.In(zone).ZoneBounds()
		if change.IsZero() || change.After(until) {
			break
		}
		after = change
		_, was := change.Add(-1).In(zone).Zone()
		_, is := change.In(zone).Zone()
		by := time.Duration(is-was) * time.Second
		switch {
		case by > 0:
			out = append(out, fireOf("transition", change, zone, "the clock goes forward by "+when.Short(by)))
		case by < 0:
			out = append(out, fireOf("transition", change, zone, "the clock goes back by "+when.Short(-by)))
		}
	}
	if n := len(out); n > manyChanges {
		out = out[n-1:]
		out[0].Note = fmt.Sprintf("%s, the last of %d changes", out[0].Note, n)
	}
	return out
}

func fireOf(kind string, at time.Time, zone *time.Location, note string) fireJSON {
	local := at.In(zone)
	abbrev, _ := local.Zone()
	return fireJSON{
		Kind: kind, At: at.UTC(), Local: local.Format("2006-01-02T15:04:05-07:00"), Offset: local.Format("-07:00"), Abbrev: abbrev, Note: note,
	}
}

func wallTimes(n int64) string {
	if n == 1 {
		return "1 wall time"
	}
	return fmt.Sprintf("%d wall times", n)
}

// foldNote tells whether the wall time of an instant comes twice.
func foldNote(at time.Time, zone *time.Location) string {
	local := at.In(zone)
	_, is := local.Zone()
	start, end := local.ZoneBounds()
	if !end.IsZero() {
		if _, next := end.Zone(); end.Sub(at) <= time.Duration(is-next)*time.Second {
			return "fold: the first of two"
		}
	}
	if !start.IsZero() {
		if _, was := start.Add(-1).Zone(); at.Sub(start) < time.Duration(was-is)*time.Second {
			return "fold: the second of two"
		}
	}
	return ""
}
