//go:build unix && !linux

package stores

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// treeCPU is not told here.
func treeCPU(int) time.Duration { return 0 }

// unprivileged refuses root; anyone else may run PostgreSQL.
func unprivileged(string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("PostgreSQL refuses to run as root; run this as another user")
	}
	return nil, nil
}
