package page_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/page"
)

// row is the line of the page that begins with a figure.
func row(t *testing.T, results page.Results, begins string) string {
	t.Helper()
	made, err := page.Render(results)
	require.NoError(t, err)
	for line := range strings.Lines(string(made)) {
		if strings.HasPrefix(line, "| "+begins) {
			return strings.TrimSpace(line)
		}
	}
	require.Fail(t, "no row", begins)
	return ""
}

// with is what the wave would give, and what else is said.
func wave(more page.Result) page.Results {
	r := page.Result{"jobs": 1e6, "urgent_jobs": 1000.0, "partitions": 64.0, "urgent_lateness_p50_ms": 200.0, "urgent_lateness_p99_ms": 5000.0,
		"standard_lateness_p99_ms": 2e5, "scheduler_peak_mib": 512.5, "jobs_per_s": 4500.0, "throttled_statements": 0.0, "started": "2026-12-01T00:00:00Z"}
	maps.Copy(r, more)
	return page.Results{"wave": r}
}

const (
	urgent = "urgent lateness"
	peak   = "largest process in that wave"
)

func TestAFigureIsMetAtItsTargetAndNotBeyondIt(t *testing.T) {
	require.Contains(t, row(t, wave(nil), urgent), "| met |")
	require.Contains(t, row(t, wave(page.Result{"urgent_lateness_p99_ms": 5001.0}), urgent), "| **not met** |")
	require.Contains(t, row(t, wave(nil), peak), "| 513 MiB | **not met** |")
	require.Contains(t, row(t, wave(page.Result{"scheduler_peak_mib": 512.0}), peak), "| met |")
}

func TestWhatIsMissingIsNeverMet(t *testing.T) {
	made, err := page.Render(page.Results{})
	require.NoError(t, err)
	require.NotContains(t, string(made), "| met |")
	require.NotContains(t, string(made), "not met**")
	require.Contains(t, row(t, page.Results{}, urgent), "| not measured |")
	require.Contains(t, string(made), "Not measured.", "the peers")

	without := wave(nil)
	delete(without["wave"], "urgent_lateness_p99_ms")
	require.Contains(t, row(t, without, urgent), "| not measured |")
}

func TestARunOfAnotherSizeIsNoProof(t *testing.T) {
	line := row(t, wave(page.Result{"jobs": 1000.0}), urgent)
	require.Contains(t, line, "| not measured |")
	require.Contains(t, line, "measured with jobs 1,000, not 1,000,000")
}

func TestARunThatLostAJobMeetsNothing(t *testing.T) {
	for _, key := range []string{"jobs_lost", "jobs_duplicated", "jobs_early"} {
		line := row(t, wave(page.Result{key: 1.0}), urgent)
		require.Contains(t, line, "| **not met** |")
		require.Contains(t, line, key+" 1")
	}
	require.Contains(t, row(t, wave(page.Result{"failure": "bench wave: it broke"}), urgent), "it broke | **not met** |")
}

func TestTheBaselineBoundsTheSchedulersCPUToo(t *testing.T) {
	of := func(own, base float64) string {
		shape := page.Result{"rate": 5000.0, "services": 1.0, "partitions": 64.0}
		one, other := page.Result{"jobs": 100_000.0, "scheduler_cpu_us_per_job": own}, page.Result{"jobs": 20_000.0, "scheduler_cpu_us_per_job": base}
		maps.Copy(one, shape)
		maps.Copy(other, shape)
		return row(t, page.Results{"null-one-service": one, "dynein": other}, "scheduler CPU a job")
	}
	require.Contains(t, of(100, 500), "| met |")
	require.Contains(t, of(100, 499), "| **not met** |")
	require.Contains(t, of(126, 1000), "| **not met** |")
}

func TestAPageThatIsNotWhatTheResultsGiveIsFound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, page.ResultsDir), 0o700))
	require.Error(t, page.Check(dir), "there is none")
	require.NoError(t, page.Write(dir))
	require.NoError(t, page.Check(dir))
	text, err := json.Marshal(wave(nil)["wave"])
	require.NoError(t, err)
	file := filepath.Join(dir, page.ResultsDir, "wave.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.ErrorContains(t, page.Check(dir), "bench report")
	require.NoError(t, page.Write(dir))
	require.NoError(t, page.Check(dir))
	made, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(made), "| [wave](results/wave.json) | `go run ./tools/bench wave` | 2026-12-01T00:00:00Z |")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.ErrorContains(t, page.Check(dir), "wave")
}

func TestRunsHaveNamesOfTheirOwnAndAnEnd(t *testing.T) {
	seen := make(map[string]bool)
	for _, run := range page.Runs() {
		require.False(t, seen[run.Name], run.Name)
		seen[run.Name] = true
		require.NotEmpty(t, run.Command())
		if len(run.Args) > 0 {
			require.Positive(t, run.Takes)
			require.NotEmpty(t, run.Shape)
		}
	}
}
