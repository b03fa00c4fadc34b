//go:build !linux

package procs

import "errors"

// LimitFiles would limit what the process writes to files; only Linux does that
// to another process.
func (*Process) LimitFiles(uint64) (release func() error, err error) {
	return nil, errors.ErrUnsupported
}

// CanLimitFiles reports whether [Process.LimitFiles] works here.
const CanLimitFiles = false
