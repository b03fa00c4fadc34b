//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a command in a process group of its own, so that Ctrl-C at the
// terminal drains instead of killing it; a cancelled context asks the whole group
// to end.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
