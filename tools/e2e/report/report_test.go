package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const pkg = module + "pkg/store"

func lines(events ...event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Package == "" {
			e.Package = pkg
		}
		line, _ := json.Marshal(e)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func runPart(t *testing.T, in, allowed string) (string, string, error) {
	t.Helper()
	dir := t.TempDir()
	list, totals := filepath.Join(dir, "allowed"), filepath.Join(dir, "totals")
	require.NoError(t, os.WriteFile(list, []byte(allowed), 0o600))
	var out bytes.Buffer
	err := run([]string{"-part", "stores", "-allowed", list, "-totals", totals}, strings.NewReader(in), &out)
	var sum bytes.Buffer
	if _, missing := os.Stat(totals); missing == nil {
		require.NoError(t, run([]string{"-sum", totals}, nil, &sum))
	}
	return out.String(), sum.String(), err
}

func ran(name, action string) []event {
	return []event{{Action: "run", Test: name}, {Action: "output", Test: name, Output: "words of " + name + "\n"}, {Action: action, Test: name}}
}

func TestAPartThatPassedIsCountedWithoutItsParents(t *testing.T) {
	in := lines(ran("TestA/x", "pass")...) + lines(ran("TestA/y", "pass")...) + lines(ran("TestA", "pass")...) +
		lines(ran("TestB", "pass")...) + lines(event{Action: "pass"})
	out, sum, err := runPart(t, in, "# none\n")
	require.NoError(t, err)
	require.Equal(t, "e2e: 3 passed, 0 failed, 0 skipped\n", sum)
	require.Contains(t, out, "3 tests passed, 0 failed, 0 skipped")
	require.NotContains(t, out, "words of")
}

func TestTheFiguresOfATestThatPassedAreShown(t *testing.T) {
	in := lines(event{Action: "run", Test: "TestA"}, event{Action: "attr", Test: "TestA", Key: "account", Value: "12 of 12"}) +
		lines(ran("TestA", "pass")...) + lines(event{Action: "pass"})
	out, _, err := runPart(t, in, "")
	require.NoError(t, err)
	require.Contains(t, out, "pkg/store TestA: account: 12 of 12\n")
	require.NotContains(t, out, "words of")
}

func TestAPartThatRanNoTestFails(t *testing.T) {
	_, _, err := runPart(t, lines(event{Action: "pass"}), "")
	require.EqualError(t, err, "part stores: no test ran")
	_, _, err = runPart(t, "", "")
	require.EqualError(t, err, "part stores: no test ran")
}

func TestAFailedTestFailsThePartAndShowsItsOutput(t *testing.T) {
	in := lines(ran("TestA/x", "fail")...) + lines(ran("TestA", "fail")...) + lines(ran("TestB", "pass")...) + lines(event{Action: "fail"})
	out, sum, err := runPart(t, in, "")
	require.ErrorContains(t, err, "1 tests and 1 packages failed")
	require.Contains(t, out, "words of TestA/x")
	require.NotContains(t, out, "words of TestB")
	require.Equal(t, "e2e: 1 passed, 1 failed, 0 skipped\n", sum)
}

func TestAPanicFailsTheTestItCutOff(t *testing.T) {
	in := lines(event{Action: "run", Test: "TestA"}, event{Action: "output", Test: "TestA", Output: "panic: boom\n"}, event{Action: "fail"})
	out, sum, err := runPart(t, in, "")
	require.Error(t, err)
	require.Contains(t, out, "panic: boom")
	require.Equal(t, "e2e: 0 passed, 1 failed, 0 skipped\n", sum)
}

func TestABrokenBuildFailsThePart(t *testing.T) {
	in := "go: something plain\n" + lines(event{Action: "build-output", Output: "x.go:1: undefined\n"}, event{Action: "fail"}) +
		lines(ran("TestB", "pass")...)
	out, _, err := runPart(t, in, "")
	require.ErrorContains(t, err, "0 tests and 1 packages failed")
	require.Contains(t, out, "go: something plain")
	require.Contains(t, out, "x.go:1: undefined")
}

func TestASkipNeedsAnEntryWithAReason(t *testing.T) {
	in := lines(ran("TestA", "skip")...) + lines(ran("TestB", "pass")...) + lines(event{Action: "pass"})
	_, _, err := runPart(t, in, "")
	require.ErrorContains(t, err, "pkg/store TestA was skipped")
	_, _, err = runPart(t, in, "queues pkg/store TestA another part's entry\n")
	require.ErrorContains(t, err, "pkg/store TestA was skipped")
	_, _, err = runPart(t, in, "stores pkg/store TestA\n")
	require.ErrorContains(t, err, "line 1: want part, package, test and a reason")
	_, sum, err := runPart(t, in, "stores pkg/store TestA the engine has no clock\n")
	require.NoError(t, err)
	require.Equal(t, "e2e: 1 passed, 0 failed, 1 skipped\n", sum)
}

func TestAnEntryThatOutlivedItsReasonFails(t *testing.T) {
	in := lines(ran("TestA", "pass")...) + lines(event{Action: "pass"})
	_, _, err := runPart(t, in, "stores pkg/store TestA the engine has no clock\n")
	require.ErrorContains(t, err, "take it off the list")
}
