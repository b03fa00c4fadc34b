package app

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/myosin-jobs/myosin/pkg/worker"
)

// printer writes lines for people. Safe for concurrent use.
type printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time // what the timeline counts from
}

func newPrinter(out io.Writer) *printer { return &printer{out: out} }

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}

// begin starts the timeline.
func (p *printer) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = time.Now()
}

// event is one line of the timeline.
func (p *printer) event(what, job, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "  %6.3f s  %-11s  %-11s  %s\n", time.Since(p.start).Seconds(), what, job, how)
}

// maxShown bounds what is shown of a payload, in runes.
const maxShown = 60

// arrived is one line about a job that is not the demo's.
func (p *printer) arrived(job worker.Job[[]byte]) {
	what := job.Name
	if what == "" {
		what = "job " + job.ID.String()
	}
	again := ""
	if job.Attempt > 1 {
		again = fmt.Sprintf(", attempt %d", job.Attempt)
	}
	p.printf("%s  %s received %s: %s (%s%s)\n", time.Now().Format("15:04:05.000"), Sample, shown(what), shown(string(job.Payload)), lateness(job.Lateness), again)
}

// shown makes foreign text fit for a terminal.
func shown(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return s
}

// greet tells where the process is reached.
func (s *process) greet() {
	s.show.printf("\nMyosin runs in this process. Stop it with Ctrl-C.\n  API  http://%s  (reference: http://%s/docs)\n", s.o.APIAddr, s.o.APIAddr)
	switch {
	case s.engine == nil:
		s.show.printf("  AWS  the endpoint of your environment, prefix %q\n\n", s.o.Prefix)
	case s.o.DataDir == "":
		s.show.printf("  AWS  %s  (embedded; us-east-1, any credentials; data in memory)\n\n", s.engine.URL())
	default:
		s.show.printf("  AWS  %s  (embedded; us-east-1, any credentials; data in %s)\n\n", s.engine.URL(), s.o.DataDir)
	}
}

// goodbye tells what was done.
func (s *process) goodbye(ran time.Duration, err error) {
	how := "Stopped cleanly"
	if err != nil {
		how = "Stopped"
	}
	done := ""
	if s.sample != nil {
		done = fmt.Sprintf("; %s received %d %s", Sample, s.sample.count.Load(), plural(s.sample.count.Load(), "job"))
	}
	kept := ""
	switch {
	case s.engine == nil:
	case s.o.DataDir == "":
		kept = "; the data was in memory and is gone (--data-dir keeps it)"
	case err == nil:
		kept = "; the data is in " + s.o.DataDir
	}
	s.show.printf("\n%s after %s%s%s.\n", how, ran.Round(100*time.Millisecond), done, kept)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
