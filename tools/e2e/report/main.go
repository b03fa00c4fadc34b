// Command report reads the output of go test -json for one part of make e2e and
// says honestly how it went. It fails if a test or a package failed, if no test
// ran, or if a test was skipped that the committed list does not allow.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	part := flags.String("part", "", "name of the part whose test2json output comes on standard input")
	allowed := flags.String("allowed", "", "file that lists the tests that may be skipped")
	totals := flags.String("totals", "", "file that the part's counts are appended to")
	sum := flags.String("sum", "", "print the sum of the counts in this file, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *sum != "" {
		return printSum(*sum, out)
	}
	list, err := os.ReadFile(*allowed)
	if err != nil {
		return fmt.Errorf("read allowed skips: %w", err)
	}
	skips, err := parseSkips(string(list))
	if err != nil {
		return fmt.Errorf("%s: %w", *allowed, err)
	}
	r := newReport(out)
	verdict := r.read(in)
	if verdict == nil {
		verdict = r.verdict(*part, skips)
	}
	fmt.Fprintf(out, "--- part %s: %d tests passed, %d failed, %d skipped in %s: %s\n",
		*part, r.passed, r.failed, len(r.skipped), r.took(), cmp.Or(shortly(verdict), "ok"))
	return errors.Join(verdict, appendTotals(*totals, r))
}

func shortly(err error) string {
	if err == nil {
		return ""
	}
	return "FAILED"
}

func appendTotals(file string, r *report) (err error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep totals: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintln(f, r.passed, r.failed, len(r.skipped))
	return err
}

// printSum ends in a line of a fixed form, for whoever reads the log by machine.
func printSum(file string, out io.Writer) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("no part ran")
	}
	if err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	defer f.Close()
	var passed, failed, skipped int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p, n, s int
		if _, err := fmt.Sscan(lines.Text(), &p, &n, &s); err != nil {
			return fmt.Errorf("read totals: %w", err)
		}
		passed, failed, skipped = passed+p, failed+n, skipped+s
	}
	fmt.Fprintf(out, "e2e: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return lines.Err()
}
