package page

import (
	"strings"
	"time"
)

// Run is one command whose result the page shows.
type Run struct {
	Name string   // of its file in results, without .json
	Args []string // of bench; none: Elsewhere makes it
	// Elsewhere is the command that makes it where this program does not.
	Elsewhere string
	Takes     time.Duration // about, on two cores
	// Shape is what the result has to say of its load: another is not this run.
	Shape map[string]float64
}

// Command is what a reader types.
func (run *Run) Command() string {
	if len(run.Args) == 0 {
		return run.Elsewhere
	}
	return "go run ./tools/bench " + strings.Join(run.Args, " ")
}

// Runs are all of them, in the order in which they are made.
func Runs() []Run {
	of := func(name, args string, takes time.Duration, shape map[string]float64) Run {
		return Run{Name: name, Args: strings.Fields(args), Takes: takes, Shape: shape}
	}
	type shape = map[string]float64
	return []Run{
		of("null-one-service", "null", 40*time.Second, shape{"jobs": 100_000, "rate": 5000, "services": 1, "partitions": 64}),
		of("null-50-services-5ms", "null --services 50 --rate 2000 --jobs 40000", 40*time.Second, shape{"jobs": 40_000, "rate": 2000, "services": 50, "partitions": 64, "linger_ms": 5}),
		of("null-50-services-100ms", "null --services 50 --rate 2000 --jobs 40000 --linger 100ms", 40*time.Second, shape{"jobs": 40_000, "rate": 2000, "services": 50, "partitions": 64, "linger_ms": 100}),
		of("null-100", "null --rate 100 --jobs 6000", 80*time.Second, shape{"jobs": 6000, "rate": 100, "services": 1, "partitions": 64}),
		of("submit", "null --submit --jobs 20000", 70*time.Second, shape{"jobs": 20_000, "rate": 5000, "services": 1, "partitions": 64}),
		of("submit-50-services", "null --submit --services 50 --rate 2000 --jobs 20000", 75*time.Second, shape{"jobs": 20_000, "rate": 2000, "services": 50, "partitions": 64}),
		of("dynein", "dynein", 45*time.Second, shape{"jobs": 20_000, "rate": 5000, "services": 1, "partitions": 64}),
		of("dynein-50-services", "dynein --services 50 --rate 2000 --jobs 10000", 30*time.Second, shape{"jobs": 10_000, "rate": 2000, "services": 50, "partitions": 64}),
		of("dynein-100", "dynein --rate 100 --jobs 1500", 30*time.Second, shape{"jobs": 1500, "rate": 100, "services": 1, "partitions": 64}),
		of("core", "core", 100*time.Second, shape{"rate": 100, "jobs": 6000}),
		of("core-200", "core --rate 200", 70*time.Second, shape{"rate": 200, "jobs": 6000}),
		of("idle", "idle", 75*time.Second, shape{"partitions": 64, "schedulers": 1}),
		of("scale", "scale", 160*time.Second, shape{"schedulers": 4, "partitions": 64, "jobs": 40_000}),
		of("table", "table", 280*time.Second, shape{"rows_stored": 10_000_000, "partitions": 64, "rate": 100}),
		of("wave", "wave", 290*time.Second, shape{"jobs": 1_000_000, "urgent_jobs": 1000, "partitions": 64}),
		of("overdue", "overdue", 260*time.Second, shape{"jobs": 2_000_000, "partitions": 64}),
		of("runs-load", "runs", 80*time.Second, shape{"jobs": 3000, "rate": 50, "tolerance_s": 0, "target_delay_ms": 0}),
		of("runs-cron", "runs cron", 4*time.Minute, shape{"jobs": 1500, "minutes": 2, "payload_bytes": 300}),
		of("runs-calls", "runs calls", time.Minute, shape{"jobs": 20_000, "runners": 1, "concurrency": 201, "target_delay_ms": 200}),
		of("runs-wave", "runs wave", 15*time.Minute, shape{"jobs": 200_000, "urgent_jobs": 1000, "tolerance_s": 600, "runners": 1}),
		{Name: "peers", Elsewhere: "cd tools/bench/peers && go run . all --json >../results/peers.json"},
		{Name: "chaos", Elsewhere: "go run ./tools/chaos --duration 30m --seed 7 --json >tools/bench/results/chaos.json"},
	}
}
