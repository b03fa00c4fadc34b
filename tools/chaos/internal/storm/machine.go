package storm

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Machine is where and from what a run was made. What cannot be found is empty.
type Machine struct {
	Started            time.Time // UTC
	Platform, CPU      string
	Cores              int
	Load               string // one-minute average before the run
	Go, Revision, Kumo string
}

var modelName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

func look(ctx context.Context) *Machine {
	m := &Machine{
		Started: time.Now().UTC().Truncate(time.Second), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if model := modelName.FindSubmatch(text); model != nil {
			m.CPU = string(model[1])
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	// go run stamps no revision into a program.
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12").Output(); err == nil {
		m.Revision = strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/sivchari/kumo" {
				m.Kumo = dep.Version
			}
		}
	}
	return m
}
