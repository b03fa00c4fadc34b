package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// module is cut from package paths.
const module = "github.com/myosin-jobs/myosin/"

// event is one line of go test -json; see cmd/test2json.
type event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
	Key     string  // of an attribute (testing.T.Attr)
	Value   string
}

// test names one test, or (Test empty) a package.
type test struct{ Package, Test string }

func (t test) String() string { return strings.TrimSpace(t.Package + " " + t.Test) }

// report counts tests without subtests of their own: a test that only holds
// others is not counted beside them.
type report struct {
	out            io.Writer
	first, last    time.Time
	output         map[test][]string // of what has not ended yet
	parents        map[test]bool     // tests with subtests
	ended          map[test]string   // action by which each test ended
	packages       int               // that failed
	passed, failed int
	skipped        []test
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, output: make(map[test][]string), parents: make(map[test]bool), ended: make(map[test]string),
	}
}

// read takes in a whole run, printing each package's end and the output of what
// fails as it comes.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(&e)
			} else if text := bytes.TrimSpace(line); len(text) > 0 {
				fmt.Fprintf(r.out, "%s\n", text) // go's own words: a broken build, a missing module
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read test output: %w", err)
		}
	}
	for t, action := range r.ended {
		switch {
		case r.parents[t] && action != "fail":
		case action == "pass":
			r.passed++
		case action == "fail":
			// A parent fails with its child; alone it failed by itself.
			if !r.parents[t] || !r.childFailed(t) {
				r.failed++
			}
		case action == "skip":
			r.skipped = append(r.skipped, t)
		}
	}
	slices.SortFunc(r.skipped, func(a, b test) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

func (r *report) childFailed(parent test) bool {
	for t, action := range r.ended {
		if action == "fail" && t.Package == parent.Package && strings.HasPrefix(t.Test, parent.Test+"/") {
			return true
		}
	}
	return false
}

func (r *report) take(e *event) {
	if !e.Time.IsZero() {
		if r.first.IsZero() {
			r.first = e.Time
		}
		r.last = e.Time
	}
	t := test{strings.TrimPrefix(e.Package, module), e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output[t] = append(r.output[t], e.Output)
	case "attr": // a figure that is to be seen of tests that pass, too
		fmt.Fprintf(r.out, "%s: %s: %s\n", t, e.Key, e.Value)
	case "run":
		if i := strings.LastIndexByte(t.Test, '/'); i > 0 {
			r.parents[test{t.Package, t.Test[:i]}] = true
		}
	case "pass", "fail", "skip":
		if t.Test != "" {
			r.ended[t] = e.Action
		} else {
			r.endPackage(t, e)
		}
		if e.Action == "fail" {
			fmt.Fprint(r.out, strings.Join(r.output[t], ""))
		}
		delete(r.output, t)
	}
}

// endPackage also prints and counts the tests that a panic or a timeout cut off.
func (r *report) endPackage(p test, e *event) {
	if e.Action == "skip" {
		return // has no test files
	}
	if e.Action == "fail" {
		r.packages++
		for t, lines := range r.output {
			if t.Package == p.Package && t.Test != "" {
				fmt.Fprint(r.out, strings.Join(lines, ""))
				r.ended[t] = "fail"
				delete(r.output, t)
			}
		}
	}
	fmt.Fprintf(r.out, "%s %s %.1fs\n", e.Action, p, e.Elapsed)
}

func (r *report) took() time.Duration { return r.last.Sub(r.first).Round(100 * time.Millisecond) }

// verdict reports every reason why the part did not hold.
func (r *report) verdict(part string, allowed []skip) error {
	var errs []error
	if r.failed > 0 || r.packages > 0 {
		errs = append(errs, fmt.Errorf("part %s: %d tests and %d packages failed", part, r.failed, r.packages))
	}
	if r.passed+r.failed == 0 {
		errs = append(errs, fmt.Errorf("part %s: no test ran", part))
	}
	for _, t := range r.skipped {
		if !slices.ContainsFunc(allowed, func(s skip) bool { return s.part == part && s.test == t }) {
			errs = append(errs, fmt.Errorf("part %s: %s was skipped and is not on the list of allowed skips", part, t))
		}
	}
	// An entry that outlived its reason would let the next skip through.
	for _, s := range allowed {
		if s.part == part && !slices.Contains(r.skipped, s.test) {
			errs = append(errs, fmt.Errorf("part %s: %s is allowed to be skipped and was not: take it off the list", part, s.test))
		}
	}
	return errors.Join(errs...)
}

// skip is an entry of the list of tests that may be skipped.
type skip struct {
	part   string
	test   test
	reason string
}

// parseSkips reads lines of part, package, test and reason; '#' starts a comment line.
func parseSkips(text string) ([]skip, error) {
	var skips []skip
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 4 {
			return nil, fmt.Errorf("line %d: want part, package, test and a reason", i+1)
		}
		skips = append(skips, skip{words[0], test{words[1], words[2]}, strings.Join(words[3:], " ")})
	}
	return skips, nil
}
