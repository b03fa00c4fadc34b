//go:build linux

package stores

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of processor time in /proc: USER_HZ, 100 on every Linux.
const tick = time.Second / 100

// treeCPU sums the processor time of a process, its children, and those of them
// that have ended.
func treeCPU(pid int) time.Duration {
	sum := int64(0)
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		// The name, in brackets, may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 15 {
			continue
		}
		own := filepath.Base(filepath.Dir(path)) == strconv.Itoa(pid)
		if !own && string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		for i := 11; i <= 14; i++ { // utime, stime, and those of ended children
			n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * tick
}

// unprivileged gives a directory to a user who may run PostgreSQL, and says how
// to be that user; nil if this process is not root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
			return nil, fmt.Errorf("become %s: %w", name, err)
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, fmt.Errorf("no user to run PostgreSQL as: %w", errors.Join(errs...))
}
