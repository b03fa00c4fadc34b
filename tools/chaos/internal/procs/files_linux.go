package procs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LimitFiles lets the files that the process writes grow to no more than size
// bytes, until release: what it writes beyond fails, as on a full disk (with
// EFBIG in the place of ENOSPC). What it sends over connections is not limited.
func (p *Process) LimitFiles(size uint64) (release func() error, err error) {
	pid := p.cmd.Process.Pid
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &was); err != nil {
		return nil, fmt.Errorf("limit the files of %s: %w", p.Name, err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: was.Max}, nil); err != nil {
		return nil, fmt.Errorf("limit the files of %s: %w", p.Name, err)
	}
	return func() error {
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &was, nil); err != nil {
			return fmt.Errorf("give %s its disk back: %w", p.Name, err)
		}
		return nil
	}, nil
}

// CanLimitFiles reports whether [Process.LimitFiles] works here.
const CanLimitFiles = true
