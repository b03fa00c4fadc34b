// Package page writes tools/bench/README.md: what stands in README.md.tmpl, and
// the figures of the results that lie in tools/bench/results.
//
// It owns the list of runs, the targets and the verdicts. A figure whose result
// is missing, of another size, or of a run in which a job was lost, is never
// called met. It measures nothing and holds no state.
package page

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed README.md.tmpl
var text string

// The places below the directory of bench.
const (
	ResultsDir = "results"
	readme     = "README.md"
)

// Check reports that README.md in the directory of bench is not what the results
// there give.
func Check(dir string) error {
	want, err := Make(dir)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, readme))
	if err != nil {
		return fmt.Errorf("check the page: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("tools/bench/README.md is not what results and template give: run `go run ./tools/bench report`")
	}
	return nil
}

// Write makes README.md in the directory of bench.
func Write(dir string) error {
	made, err := Make(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, readme), made, 0o644); err != nil { //nolint:gosec // a page to be read.
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Make makes the page of the results below a directory.
func Make(dir string) ([]byte, error) {
	results, err := Load(filepath.Join(dir, ResultsDir))
	if err != nil {
		return nil, err
	}
	return Render(results)
}

// Render makes the page.
func Render(results Results) ([]byte, error) {
	t, err := template.New(readme).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]string{
		"Targets": targets(results), "Others": table(others(), results, false), "Peers": peers(results["peers"]), "Runs": runs(results),
	}); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return out.Bytes(), nil
}

func targets(results Results) string { return table(figures(), results, true) }

// table is a table of figures.
func table(list []figure, results Results, aims bool) string {
	var b strings.Builder
	if aims {
		b.WriteString("| figure | target | measured | | run |\n|---|---|---|---|---|\n")
	} else {
		b.WriteString("| figure | measured | run |\n|---|---|---|\n")
	}
	for i := range list {
		f := &list[i]
		shown, v := f.judge(results)
		var links []string
		for _, name := range f.from {
			links = append(links, link(name, results))
		}
		if aims {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.what, f.target, shown, v, strings.Join(links, ", "))
		} else {
			if v == notMeasured {
				shown = strings.TrimSuffix(string(v)+": "+shown, ": ")
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.what, shown, strings.Join(links, ", "))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// link leads to a result, if there is one.
func link(name string, results Results) string {
	if _, ok := results[name]; !ok {
		return name
	}
	return fmt.Sprintf("[%s](results/%s.json)", name, name)
}

// runs is the table of the runs: what made each, when and where.
func runs(results Results) string {
	var b strings.Builder
	b.WriteString("| run | command | date | revision | machine | versions |\n|---|---|---|---|---|---|\n")
	for _, run := range Runs() {
		r, ok := results[run.Name]
		if !ok {
			fmt.Fprintf(&b, "| %s | `%s` | not measured | | | |\n", run.Name, run.Command())
			continue
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s, %s cores, %s, load %s before | %s |\n", link(run.Name, results), run.Command(),
			r.text("started"), r.text("git_revision"), r.text("cpu_model"), r.text("cores"), r.text("platform"), r.text("load_average_before"), r.versions())
	}
	return strings.TrimSuffix(b.String(), "\n")
}
