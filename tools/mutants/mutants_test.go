package mutants_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation is a one-line change, and the suite that must notice it.
type mutation struct {
	name     string
	file     string // from the root of the module
	old, new string // old stands once in the file
	suite    []string
}

func mutations() []mutation {
	sim := []string{"./pkg/simulation", "-run", "TestSeeds|TestAWorld"}
	kumo := []string{"./pkg/store/dynamostore"}
	sched := []string{"./pkg/scheduler"}
	// What simulation meets in a few of its worlds only needs a test that always meets it.
	cl := []string{"./pkg/client", "-run", "TestCancelAnswersByTheStateItFinds"}
	runs := func(test string) []string { return []string{"./pkg/runner", "-run", test} }
	return []mutation{
		{"no condition on acquiring, completing and releasing", "pkg/store/memstore/write.go", "if r == nil || r.state != from {", "if r == nil {", sim},
		{"unconditional put", "pkg/store/memstore/write.go", "\tif r != nil {\n\t\tcost.Conflicts = 1", "\tif r != nil && false {\n\t\tcost.Conflicts = 1", sim},
		{"delete instead of tombstone", "pkg/store/memstore/write.go", "return r.tombstone(to, expires) })\n}\n\n// SetState", "return nil })\n}\n\n// SetState", sim},
		{"no tombstone where no row is", "pkg/client/cancel.go", "date, res := t.store.PutTombstone(ctx, place, trigger.StateCancelledLate, expires)", "date, res := t.now().Truncate(time.Second), store.Result{}", sim},
		{"a cancel from S! claims to be sure", "pkg/client/cancel.go", "to, outcome = trigger.StateCancelledLate, OutcomeTooLate", "outcome = OutcomeCancelled", cl},
		{"a cancel is sure however late its tombstone", "pkg/client/cancel.go", "return date.Add(sureBefore).Before(due)", "return true", sim},
		{"a cancel does not follow a move", "pkg/client/table.go", "return row.State.Tombstone() && !row.MovedTo.IsZero()", "return false", sim},
		{"complete before send", "pkg/dispatch/send.go", "errs := d.o.Sender.SendBatch(ctx, svc.Queue(d.o.Lane), msgs)", "errs := make([]error, len(msgs))\n\t_ = ctx\n\tgo func() { <-time.After(time.Second); _ = d.o.Sender.SendBatch(context.Background(), svc.Queue(d.o.Lane), msgs) }()", sim},
		{"never complete", "pkg/dispatch/finish.go", "\tc.finish = finish{outcome: Delivered}\n\td.finishes.Add(c)", "\tc.finish = finish{outcome: Delivered}\n\td.end(c, Delivered)", sim},
		{"a failed send counts as sent", "pkg/dispatch/send.go", "\t\tcase err == nil:\n\t\t\ttook++", "\t\tcase err == nil || true:\n\t\t\ttook++", sim},
		{"an unknown send is released as surely unsent", "pkg/dispatch/send.go", "c.maybeSent = c.maybeSent || !queue.SurelyUnsent(err)", "c.maybeSent = false", []string{"./pkg/dispatch"}},
		{"sent before it is due", "pkg/dispatch/dispatch.go", "c.readyAt = c.Row.Due", "c.readyAt = c.At", sim},
		{"recover without age", "pkg/scheduler/sweep.go", "if age <= o.StaleAfter {", "if age < 0 {", sim},
		{"recover to S", "pkg/scheduler/sweep.go", "From: state, To: trigger.StateMaybeSent})", "From: state, To: trigger.StateScheduled})", sched},
		{"never recover", "pkg/scheduler/sweep.go", "if age <= o.StaleAfter {", "if age <= 100*o.StaleAfter {", sim},
		{"a stale claim is sent", "pkg/dispatch/send.go", "case now.Sub(c.At) > d.o.MaxClaimAge:", "case now.Sub(c.At) > 100*d.o.MaxClaimAge:", append(sched, "./pkg/dispatch")},
		{"what is new among rows already read stays unread", "pkg/scheduler/part.go", "\t\treturn unread\n", "\t\treturn skipped\n", sched},
		{"a lost claim is sent", "pkg/scheduler/lane.go", "won = r.Found != nil && r.Found.State == state // a lost reply", "won = r.Found != nil", sim},
		{"partition from the wrong count", "pkg/inbound/lane.go", "t, err := trigger.DecodeInbound([]byte(it.msg.Body), it.msg.SentAt, counts.At)", "t, err := trigger.DecodeInbound([]byte(it.msg.Body), it.msg.SentAt, counts.At)\n\tt.N = counts.Max()", sim},
		{"other places are not looked at", "pkg/inbound/insert.go", "op.Absent = places[1:]", "op.Absent = nil", []string{"./pkg/inbound"}},
		{"acknowledged before it is stored", "pkg/inbound/insert.go", "\tl.settle(items, ops, l.in.o.Store.Write(ctx, ops))", "\tfor _, it := range items {\n\t\tl.ack(it)\n\t}\n\tl.settle(items, ops, l.in.o.Store.Write(ctx, ops))", sim},
		{"the table forgets the fence (single calls)", "pkg/store/dynamostore/write.go", `const ifState = "attribute_exists(" + attrP + ") AND " + attrState + " = :from"`, `const ifState = "attribute_exists(" + attrP + ") AND " + attrState + " <> :from"`, kumo},
		{"classic updates create missing rows", "pkg/store/dynamostore/write.go", `const ifState = "attribute_exists(" + attrP + ") AND " + attrState + " = :from"`, `const ifState = "attribute_not_exists(" + attrP + ") OR " + attrState + " = :from"`, kumo},
		{"a run that ends keeps its overlap claim", "pkg/jobcontrol/change.go", "if r.Kind == job.Occurrence && (claims(j) ||", "if r.Kind == job.Gap && (claims(j) ||", runs("TestOverlapQueue")},
		{"what was armed over is not put on record", "pkg/jobcontrol/begin.go", "\tr.Wake = now // should its message be lost too\n", "\treturn nil, nil\n", runs("TestAnOccurrenceArmedOver")},
		{"a run on record begins whatever its job's generation", "pkg/jobcontrol/begin.go", "r.State == job.Scheduled && r.Version > 0 && tx.Progress == nil {", "r.State == job.Dead {", runs("TestARunOnRecord")},
		{"an edit forgets what was armed over and has not begun", "pkg/jobcontrol/jobs.go", "[]time.Time{j.Pending, j.Previous}", "[]time.Time{j.Pending}", runs("TestCase27a")},
		{"an edit forgets the run that waits", "pkg/jobcontrol/jobs.go", "\tif j.Waiting != \"\" {\n\t\tids", "\tif j.Waiting == \"none\" {\n\t\tids", runs("TestAWaitingRun")},
		{"an edit runs again what has run once", "pkg/jobcontrol/jobs.go", "starts = starts && (!before.Pending.IsZero() || ", "starts = starts && (true || ", runs("TestAnEditOfAJobThatHasRunOnce")},
		{"the next run is armed after the call", "pkg/runner/handle.go", "\t\terr = r.o.Control.Arm(ctx, j, plan, d.parts.Nominal, step)", "\t\tif step.Run {\n\t\t\tk := *j\n\t\t\tdefer func() { _ = r.o.Control.Arm(ctx, &k, plan, d.parts.Nominal, step) }()\n\t\t\treturn true, r.start(ctx, &delivery{msg: d.msg, parts: d.parts, j: j, fresh: true})\n\t\t}\n\t\terr = r.o.Control.Arm(ctx, j, plan, d.parts.Nominal, step)", runs("TestACronJobRuns")},
		{"what was counted as missed runs too", "pkg/runner/handle.go", " && d.parts.Nominal.Equal(d.j.Previous) {", " && !d.parts.Nominal.After(d.j.Previous.Add(time.Hour)) {", append(runs("TestAnOccurrenceIsNotRun"), "-count=30")}, // which of two messages of one instant is first is open
		{"a late queue never runs the latest", "pkg/runner/handle.go", "\t\t\td.parts.Nominal = step.Pending\n", "\t\t\treturn false, nil\n\t\t\td.parts.Nominal = step.Pending\n", runs("TestAQueueThatIsBehind")},
		{"a lease is not renewed", "pkg/runner/call.go", "return x.Renew(r.now(), run.Attempt) })", "return x, nil })", runs("TestACallThatTakesLong")},
		{"a lost message of a pending run is not missed", "pkg/runner/reconcile.go", "j.Wake.IsZero() || j.Wake.After(before) {", "j.Wake.IsZero() || !j.Wake.IsZero() {", runs("TestCase27b")},
		{"a result needs no lease", "pkg/job/run.go", "\tcase attempt != r.Attempt:\n", "\tcase attempt > r.Attempt:\n", runs("TestTheResultOfARunner")},
		{"a lease is taken over before it ends", "pkg/job/run.go", "\tcase r.State == Running && now.Before(r.LeaseUntil):\n", "\tcase r.State == Running && now.Before(r.LeaseUntil.Add(-25*time.Second)):\n", []string{"./pkg/job"}},
		{"a crash counts as a failure", "pkg/job/run.go", "\tcase r.Accepted:\n", "\tcase r.Accepted || true:\n", runs("TestCase27ACrash")},
		{"a redriven notice runs the job", "pkg/job/run.go", "Urgent: r.Urgent, Call: r.Call,", "Urgent: r.Urgent,", runs("TestARedrivenNotice")},
	}
}

// TestMutations needs MYOSIN_MUTANTS=1: it builds and runs a suite for each
// mutation, by overlay, so the tree is not touched.
func TestMutations(t *testing.T) {
	if os.Getenv("MYOSIN_MUTANTS") == "" {
		t.Skip("MYOSIN_MUTANTS is not set: `make e2e` runs this")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutations() {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			start := time.Now()
			out, failed := run(t, root, m)
			if !failed {
				t.Errorf("%s: no test of %v notices\n%s", m.name, m.suite, tail(out, 30))
				return
			}
			// A mutation that does not compile proves nothing.
			require.NotContains(t, string(out), "[build failed]", "%s", out)
			require.Contains(t, string(out), "--- FAIL", "%s", out)
			t.Logf("noticed after %s", time.Since(start).Round(time.Second))
		})
	}
}

func run(t *testing.T, root string, m mutation) (out []byte, failed bool) {
	path := filepath.Join(root, m.file)
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(src, []byte(m.old)), "%q must stand once in %s", m.old, m.file)
	dir := t.TempDir()
	mutated := filepath.Join(dir, "mutated.go")
	require.NoError(t, os.WriteFile(mutated, bytes.Replace(src, []byte(m.old), []byte(m.new), 1), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=200s", "-overlay", file}, m.suite...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "MYOSIN_SIM_SEEDS=60", "MYOSIN_SIM_FIRST=1", "MYOSIN_MUTANTS=")
	out, err = cmd.CombinedOutput()
	return out, err != nil
}

func tail(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
