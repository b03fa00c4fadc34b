// Package host tells where a figure was measured: machine, toolchain, revision,
// and what the process has used. It holds no state and may be used concurrently.
package host

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Facts head a report.
type Facts struct {
	When     time.Time // UTC
	Platform string    // GOOS/GOARCH
	CPU      string    // model; "unknown" where the system does not tell
	Cores    int       // usable by this process
	Load     string    // one-minute load average before the run; "unknown" as above
	Go       string
	Revision string // of the tree, with "-dirty" if it was changed
	Engine   string // set by whoever chose it
}

// Look gathers the facts. What cannot be found is "unknown".
func Look(ctx context.Context) Facts {
	return Facts{
		When: time.Now().UTC().Truncate(time.Second), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpu(), Cores: runtime.GOMAXPROCS(0), Load: load(), Go: runtime.Version(), Revision: revision(ctx),
		Engine: unknown,
	}
}

const unknown = "unknown"

// Module is the version of a module this program was built with.
func Module(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return unknown
}

func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return unknown
}

// revision asks git: go run stamps no version control into the program.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12").Output()
	if rev := strings.TrimSpace(string(out)); err == nil && rev != "" {
		return rev
	}
	return unknown
}
