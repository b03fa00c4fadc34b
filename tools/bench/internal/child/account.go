package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks are the units of /proc/<pid>/stat: USER_HZ, 100 on Linux.
const ticks = 10 * time.Millisecond

// CPU is the user and system time the child has used so far, by the operating
// system's account; an error where the system has no /proc.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the account of %s: %w", p.name, err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the account of %s: %d fields", p.name, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * ticks, errors.Join(err1, err2)
}

// Peak is the child's largest resident memory so far, in bytes.
func (p *Process) Peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read the memory of %s: no VmHWM", p.name)
}

// Used sums the processor time of children and finds the largest peak.
func Used(ps ...*Process) (sum time.Duration, peak int64, err error) {
	for _, p := range ps {
		c, err1 := p.CPU()
		m, err2 := p.Peak()
		sum += c
		peak = max(peak, m)
		err = errors.Join(err, err1, err2)
	}
	return sum, peak, err
}
