package storm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Failure is the error of a run with breaches.
func (r *Report) Failure() error {
	if n := len(r.Breaches); n > 0 {
		return fmt.Errorf("chaos: seed %d: %d breaches", r.Seed, n)
	}
	return nil
}

// WriteJSON prints the report as one object.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// shown is how many breaches are printed in full.
const shown = 20

// WriteText prints the report as a table, then the breaches with the histories
// of the triggers at fault.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	line := func(name string, format string, args ...any) {
		fmt.Fprintf(&b, "  %-40s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "chaos, seed %d, on %s, %.0f s\n", r.Seed, r.Endpoint, r.Seconds)
	line("submitted", "%d, %d without an answer, %d more repeats", r.Submitted, r.Unsure, r.Repeated)
	line("delivered", "%d", r.Delivered)
	line("cancelled", "%d, and %d too late to be sure", r.Cancelled, r.CancelUnsure)
	line("moved", "%d", r.Moved)
	line("gone with the queue that was deleted", "%d", r.LostWithQueue)
	line("lateness, faults included", "p50 %.0f ms, p99 %.0f ms, max %.0f ms", r.LateP50, r.LateP99, r.LateMax)
	line("drained after the faults", "%.1f s", r.Drained)
	b.WriteString("promises\n")
	line("lost", "%d", r.Lost)
	line("early", "%d (%d within the clocks' tolerance)", r.Early, r.WithinClock)
	line("cancelled but delivered", "%d", r.CancelledAndSent)
	line("wrong delivery", "%d", r.WrongDelivery)
	line("duplicates that nothing explains", "%d", r.Unexplained)
	line("sent more than once", "%d", r.DuplicateSends)
	line("messages handled more than once", "%d", r.DuplicateHandlers)
	for _, why := range slices.Sorted(maps.Keys(r.Why)) {
		line("  "+why, "%d", r.Why[why])
	}
	line("sent and not completed at kills", "%d", r.HeldAtKills)
	b.WriteString("faults\n")
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		line(kind, "%d", r.Faults[kind])
	}
	if r.Logs != "" {
		line("logs", "%s", r.Logs)
	}
	if n := len(r.Breaches); n > 0 {
		fmt.Fprintf(&b, "%d BREACHES\n", n)
		for _, text := range r.Breaches[:min(n, shown)] {
			b.WriteString(text + "\n")
		}
	} else {
		b.WriteString("every promise was kept\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
