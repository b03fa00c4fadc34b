package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/page"
)

// TestMain is the tests, and the commands and processes that they start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestWrongCommandsAndFlagsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{{}, {"nothing"}, {"core", "--nothing"}, {"core", "--rate", "-1"}, {"core", "--lead-time", "soon"},
		{"endpoint", "--limits", "some"}, {"endpoint", "--nothing"}, {"wave", "--submit"}, {"scale", "--schedulers", "17"}, {"idle", "--jobs", "1"},
		{"all", "--only", "nothing"}, {"all", "--only", "peers"}, {"report", "--nothing"}} {
		require.Equal(t, 2, run(args), args)
	}
	require.Equal(t, 0, run([]string{"help"}))
	require.Equal(t, 0, run([]string{"core", "--help"}))
	require.Equal(t, 0, run([]string{"endpoint", "--help"}))
}

func TestThePageIsWhatTheResultsGive(t *testing.T) {
	require.NoError(t, page.Check("."))
}

func TestEveryRunIsACommandWithFlagsOfItsOwn(t *testing.T) {
	for _, one := range page.Runs() {
		if len(one.Args) > 0 {
			require.Equal(t, 0, run(append(slices.Clone(one.Args), "--help")), one.Name)
		}
	}
	runs, err := choose("")
	require.NoError(t, err)
	require.Len(t, runs, len(page.Runs())-2, "peers and chaos are made elsewhere")
	runs, err = choose("wave,idle")
	require.NoError(t, err)
	require.Len(t, runs, 2)
}

func TestAllKeepsWhatARunGaveAndGoesOnAfterOneThatBroke(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, page.ResultsDir), 0o700))
	var progress bytes.Buffer
	runs := []page.Run{
		{Name: "wave", Args: []string{"wave", "--jobs", "-1"}, Takes: time.Second},
		{Name: "idle", Args: []string{"idle", "--idle", "3s", "--partitions", "4"}, Takes: 10 * time.Second},
	}
	err := makeAll(t.Context(), dir, runs, &progress)
	require.ErrorContains(t, err, "wave")
	require.NotContains(t, err.Error(), "idle:")
	require.NoFileExists(t, filepath.Join(dir, page.ResultsDir, "wave.json"))
	text, err := os.ReadFile(filepath.Join(dir, page.ResultsDir, "idle.json"))
	require.NoError(t, err)
	var result map[string]any
	require.NoError(t, json.Unmarshal(text, &result))
	require.Equal(t, "idle", result["command"])
	require.Positive(t, result["dynamodb_usd_per_month"])
	require.Contains(t, result, "scheduler_cpu_s_per_hour")
	require.NotContains(t, result, "failure")
	require.NoError(t, page.Check(dir))
	require.Contains(t, progress.String(), "--jobs -1", "what a command says is passed on")
	require.Contains(t, progress.String(), "tools/chaos --duration 30m", "how the others are made")
}

func TestAResultOfARunThatFailedSaysSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, page.ResultsDir), 0o700))
	run := page.Run{Name: "null-100", Args: []string{"null", "--overdue", "1h", "--jobs", "100000", "--rate", "1e7", "--patience", "1ms"}, Takes: time.Second}
	require.Error(t, makeOne(t.Context(), dir, &run, "r", t.Output()), "nothing is delivered in a millisecond")
	results, err := page.Load(filepath.Join(dir, page.ResultsDir))
	require.NoError(t, err)
	require.Contains(t, results["null-100"]["failure"], "jobs lost")
	require.Equal(t, "r", results["null-100"]["git_revision"])
}
