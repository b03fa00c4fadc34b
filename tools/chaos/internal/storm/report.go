package storm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/runs"
)

// Report is what a run came to.
type Report struct {
	Options       Options
	Machine       *Machine
	Endpoint      string
	Took, Drained time.Duration
	Faults        map[string]int // by kind
	Refused       int            // submissions that were refused: nobody's promise
	GivenUp       int            // calls that a process did not wait for
	Logs          string         // empty if they were not kept
	*audit.Account
	Managed *runs.Account // nil: it was left out
}

// Failure is the error of a run with breaches.
func (r *Report) Failure() error {
	if n := len(r.breaches()); n > 0 {
		return fmt.Errorf("chaos: seed %d: %d breaches", r.Options.Seed, n)
	}
	return nil
}

func (r *Report) engine() string {
	switch r.Options.Engine {
	case EngineKumo:
		return "kumo " + r.Machine.Kumo + " in a process of its own"
	case EngineNull:
		return "the null endpoint of tools/bench in a process of its own"
	}
	return r.Endpoint
}

func (r *Report) duplicates() int { return r.DuplicateSends + r.DuplicateHandlers }

// Flat is the report as flat snake_case keys; breaches is a list, if there are
// any.
func (r *Report) Flat() map[string]any {
	o, m, a := &r.Options, r.Machine, r.Account
	seconds := func(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
	flat := map[string]any{
		"command": "chaos", "started": m.Started.Format(time.RFC3339), "platform": m.Platform, "cpu_model": m.CPU, "cores": m.Cores,
		"load_average_before": m.Load, "go_version": m.Go, "git_revision": m.Revision, "engine": r.engine(),
		"seed": o.Seed, "duration_s": seconds(o.Duration), "took_s": seconds(r.Took), "drained_after_s": seconds(r.Drained),
		"rate": o.Rate, "inbounds": o.Inbounds, "schedulers": o.Schedulers, "workers": o.Workers,

		"chaos_submitted": a.Submitted, "chaos_accepted": a.Accepted, "chaos_unsure": a.Unsure, "chaos_repeated": a.Repeated,
		"chaos_delivered": a.Delivered, "chaos_cancelled": a.Cancelled, "chaos_cancel_unsure": a.CancelUnsure, "chaos_moved": a.Moved,
		"chaos_lost_with_deleted_queue": a.LostWithQueue, "chaos_lost": a.Lost, "chaos_early": a.Early,
		"chaos_early_within_clock_tolerance": a.WithinClock, "chaos_cancelled_delivered": a.CancelledAndSent,
		"chaos_wrong_delivery": a.WrongDelivery, "chaos_duplicate_sends": a.DuplicateSends, "chaos_messages_handled_again": a.DuplicateHandlers,
		"chaos_duplicates_explained": r.duplicates() - a.Unexplained, "chaos_duplicates_unexplained": a.Unexplained,
		"chaos_duplicates_roll": a.OnRolls, "chaos_rows_sent_and_not_completed_at_kills": a.HeldAtKills,
		"chaos_late_p50_ms": a.LateP50, "chaos_late_p99_ms": a.LateP99, "chaos_late_max_ms": a.LateMax, "chaos_breaches": len(r.breaches()),
		"chaos_submissions_refused": r.Refused, "chaos_calls_given_up": r.GivenUp,
	}
	for why, n := range a.Why {
		flat["chaos_duplicates_because_"+snake(why)] = n
	}
	total := 0
	for kind, n := range r.Faults {
		flat["chaos_faults_"+snake(kind)] = n
		total += n
	}
	flat["chaos_faults"] = total
	r.flatManaged(flat)
	if all := r.breaches(); len(all) > 0 {
		flat["breaches"] = all
	}
	if r.Logs != "" {
		flat["logs"] = r.Logs
	}
	return flat
}

func snake(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r < 'a' || r > 'z' }), "_")
}

// WriteJSON prints the report as one flat object.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r.Flat())
}

// shown is how many breaches are printed in full.
const shown = 20

// WriteText prints the report as a table, then the breaches with the histories
// of the triggers at fault.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	line := func(name string, format string, args ...any) {
		fmt.Fprintf(&b, "  %-52s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "chaos, seed %d, on %s, %.0f s\n", r.Options.Seed, r.engine(), r.Took.Seconds())
	line("submitted", "%d, %d without an answer, %d more repeats", r.Submitted, r.Unsure, r.Repeated)
	line("refused, and not submitted", "%d", r.Refused)
	line("delivered", "%d", r.Delivered)
	line("cancelled", "%d, and %d too late to be sure", r.Cancelled, r.CancelUnsure)
	line("moved", "%d", r.Moved)
	line("gone with the queue that was deleted", "%d", r.LostWithQueue)
	line("lateness, faults included", "p50 %.0f ms, p99 %.0f ms, max %.0f ms", r.LateP50, r.LateP99, r.LateMax)
	line("drained after the faults", "%.1f s", r.Drained.Seconds())
	b.WriteString("promises\n")
	line("lost", "%d", r.Lost)
	line("early", "%d (%d within the clocks' tolerance)", r.Early, r.WithinClock)
	line("cancelled but delivered", "%d", r.CancelledAndSent)
	line("wrong delivery", "%d", r.WrongDelivery)
	line("duplicates that nothing explains", "%d, %d of them on rolls", r.Unexplained, r.OnRolls)
	line("duplicates that are explained", "%d: %d sent, %d handled once more", r.duplicates()-r.Unexplained, r.DuplicateSends, r.DuplicateHandlers)
	for _, why := range slices.Sorted(maps.Keys(r.Why)) {
		line("  "+why, "%d", r.Why[why])
	}
	line("sent and not completed at kills", "%d", r.HeldAtKills)
	r.textManaged(line)
	b.WriteString("faults\n")
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		line(kind, "%d", r.Faults[kind])
	}
	line("calls that a process gave up", "%d", r.GivenUp)
	if r.Logs != "" {
		line("logs", "%s", r.Logs)
	}
	if n := len(r.breaches()); n > 0 {
		fmt.Fprintf(&b, "%d BREACHES\n", n)
		for _, text := range r.breaches()[:min(n, shown)] {
			b.WriteString(text + "\n")
		}
	} else {
		b.WriteString("every promise was kept\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
