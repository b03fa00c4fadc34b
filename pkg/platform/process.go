package platform

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Process holds the settings every process of an installation has.
type Process struct {
	Name     string // "inbound"
	Prefix   string
	Endpoint string // empty: as the SDK finds it
	Region   string // empty: as the SDK finds it
	// Addr is where health, readiness and metrics are served; port 0 takes a free one.
	Addr      string
	LogFormat string // json or text
	LogLevel  string
	// Grace is for the whole shutdown; it must fit into the pod's.
	Grace time.Duration
	// GCPercent and MemoryLimit (bytes, soft) are the runtime's, where GOGC and
	// GOMEMLIMIT do not say otherwise; 0 leaves the runtime's own. Memory is
	// cheap beside the CPU that collecting costs: compare with `bench null`.
	GCPercent, MemoryLimit int
	// Index and Count number the processes of this kind, from 0.
	Index, Count int

	// Local replaces the local clock, for tests; nil: clock.Steady.
	Local func() time.Time
	// Log and Registerer replace what the settings would make, for tests.
	Log        *slog.Logger
	Registerer *prometheus.Registry
	// Configure is [Options.Configure].
	Configure func(*aws.Config)
	// OnListen is told the address bound.
	OnListen func(addr string)
}

// NewProcess returns the defaults of a process.
func NewProcess(name, addr string) Process {
	return Process{
		Name: name, Prefix: DefaultPrefix, Addr: addr, LogFormat: "json", LogLevel: "info",
		Grace: 25 * time.Second, Count: 1, GCPercent: 400, MemoryLimit: 384 << 20,
	}
}

// Settings adds the settings to s, with the present values as defaults.
func (p *Process) Settings(s *settings.Set) {
	env := "MYOSIN_" + strings.ToUpper(p.Name) + "_"
	s.StringVar(&p.Prefix, "prefix", "MYOSIN_PREFIX", "first part of every resource's name")
	s.StringVar(&p.Endpoint, "endpoint", "AWS_ENDPOINT_URL", "base URL of all AWS services; empty for AWS itself")
	s.StringVar(&p.Region, "region", "AWS_REGION", "AWS region; empty for what the SDK finds, else us-east-1")
	s.StringVar(&p.Addr, "addr", env+"ADDR", "where /healthz, /readyz and /metrics are served")
	s.StringVar(&p.LogFormat, "log-format", "MYOSIN_LOG_FORMAT", "json or text")
	s.StringVar(&p.LogLevel, "log-level", "MYOSIN_LOG_LEVEL", "debug, info, warn or error")
	s.DurationVar(&p.Grace, "grace", "MYOSIN_GRACE", "for the whole shutdown; must fit into the pod's grace period")
	s.IntVar(&p.GCPercent, "gc-percent", "MYOSIN_GC_PERCENT", "garbage collection target where GOGC is not set: more is less CPU and more memory, up to the limit; 0 for the runtime's own")
	s.IntVar(&p.MemoryLimit, "memory-limit", "MYOSIN_MEMORY_LIMIT", "soft memory limit in bytes where GOMEMLIMIT is not set; 0 for none")
	s.IntVar(&p.Index, "member-index", env+"MEMBER_INDEX", "number of this process among its kind, from 0")
	s.IntVar(&p.Count, "member-count", env+"MEMBER_COUNT", "number of processes of its kind")
}

// Started is what [Process.Start] makes.
type Started struct {
	*Platform
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Members membership.Provider
	Owner   string
}

// Start makes logger, metrics, membership and an owner id, and opens the
// platform, registered with o.
func (p *Process) Start(ctx context.Context, o Options) (*Started, error) {
	st := &Started{Log: p.Log, Metrics: p.Registerer, Owner: Owner()}
	var errs [3]error
	if st.Log == nil {
		st.Log, errs[0] = telemetry.NewLogger(telemetry.LogOptions{Format: p.LogFormat, Level: p.LogLevel, Process: p.Name})
	}
	if st.Metrics == nil {
		st.Metrics = telemetry.NewRegistry(p.Name)
	}
	members, err := membership.NewStatic(p.Index, p.Count)
	st.Members, errs[1] = members, err
	if p.Grace < time.Second {
		errs[2] = fmt.Errorf("grace: %s; want at least 1s", p.Grace)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	p.collect()
	o.Prefix, o.Endpoint, o.Region = p.Prefix, p.Endpoint, p.Region
	o.Log, o.Registerer, o.Local, o.Configure = st.Log, st.Metrics, p.Local, p.Configure
	if st.Platform, err = Open(ctx, o); err != nil {
		return nil, err
	}
	return st, nil
}

// collect tells the garbage collector what the settings say.
func (p *Process) collect() {
	if _, set := os.LookupEnv("GOGC"); !set && p.GCPercent > 0 {
		debug.SetGCPercent(p.GCPercent)
	}
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set && p.MemoryLimit > 0 {
		debug.SetMemoryLimit(int64(p.MemoryLimit))
	}
}

// Owner returns a name for one start of one process: its host and something
// random, fit for the state of a row.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}
	host = strings.Map(clean, host)
	// A pod's name ends in what tells it from the others.
	host = host[max(0, len(host)-40):]
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return host + "-" + hex.EncodeToString(b[:])
}

// WaitReach calls [Platform.Reach] until it succeeds or ctx ends: endpoint,
// tables and rights may come after the process.
func (p *Platform) WaitReach(ctx context.Context, log *slog.Logger) error {
	return wait(ctx, log, func() error { return p.Reach(ctx) })
}

// WaitBuffers calls [Platform.Buffers] until it finds all queues or ctx ends.
func (p *Platform) WaitBuffers(ctx context.Context, log *slog.Logger) (b Buffers, err error) {
	err = wait(ctx, log, func() (err error) { b, err = p.Buffers(ctx); return err })
	return b, err
}

func wait(ctx context.Context, log *slog.Logger, try func() error) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		log.WarnContext(ctx, "platform cannot be used yet, trying again", telemetry.KeyError, err, "in", pause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
