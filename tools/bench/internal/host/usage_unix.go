//go:build unix

package host

import (
	"syscall"
	"time"
)

// CPU is the processor time this process has used, user and system; false where
// the system does not tell.
func CPU() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
