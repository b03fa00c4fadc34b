package procs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
)

// TestMain lets the test's program be the keeper.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keeper" {
		procs.Keep(os.Stdin, os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func start(t *testing.T, k *procs.Keeper, dir, script string) *procs.Process {
	t.Helper()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	p, err := k.Start(procs.Spec{Name: "p" + strconv.Itoa(len(script)), Dir: dir, Program: sh, Args: []string{"-c", script}, Env: os.Environ()})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func sees(t *testing.T, p *procs.Process, expr string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := p.Sees(ctx, p.Out, regexp.MustCompile(expr))
	require.NoError(t, err)
	return got
}

func TestStopWantsACleanEndAndKillNone(t *testing.T) {
	k, err := procs.StartKeeper(os.Environ(), "keeper", "")
	require.NoError(t, err)
	defer k.Close()
	dir := t.TempDir()
	const waits = `echo up; while :; do sleep 0.05; done`
	clean := start(t, k, dir, `trap 'exit 0' TERM; `+waits)
	sees(t, clean, "up")
	require.True(t, clean.Running())
	require.NoError(t, clean.Stop(10*time.Second))
	require.False(t, clean.Running())

	unclean := start(t, k, dir, `trap 'exit 3;' TERM; `+waits)
	sees(t, unclean, "up")
	require.ErrorContains(t, unclean.Stop(10*time.Second), "exit status 3")

	deaf := start(t, k, dir, `trap '' TERM; `+waits)
	sees(t, deaf, "up")
	require.ErrorContains(t, deaf.Stop(50*time.Millisecond), "was killed")
	require.False(t, deaf.Running())
	_, err = deaf.Sees(t.Context(), deaf.Out, regexp.MustCompile("never"))
	require.ErrorContains(t, err, "ended")
}

func TestFilesOfAProcessGrowNoFurtherUntilTheyMay(t *testing.T) {
	if !procs.CanLimitFiles {
		t.Skip("Linux only")
	}
	k, err := procs.StartKeeper(os.Environ(), "keeper", "")
	require.NoError(t, err)
	defer k.Close()
	dir := t.TempDir()
	p := start(t, k, dir, `trap '' XFSZ; while :; do if head -c 3000 /dev/zero >full 2>/dev/null; then echo room; else echo full; fi; sleep 0.02; done`)
	sees(t, p, "room")
	release, err := p.LimitFiles(2000)
	require.NoError(t, err)
	sees(t, p, "full")
	require.NoError(t, release())
	sees(t, p, "full\nroom")
}

func TestTheKeeperEndsWhatIsLeftAndCleansUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(dir, 0o700))
	k, err := procs.StartKeeper(os.Environ(), "keeper", dir)
	require.NoError(t, err)
	p := start(t, k, dir, `echo pid $$; while :; do sleep 0.05; done`)
	pid, err := strconv.Atoi(sees(t, p, `pid (\d+)`))
	require.NoError(t, err)
	k.Close()
	p.Kill() // waits for it
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoDirExists(t, dir)
}
