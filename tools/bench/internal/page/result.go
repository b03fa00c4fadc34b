package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Result is what one run measured: flat keys.
type Result map[string]any

// Results are those that there are, by the name of their run.
type Results map[string]Result

// Load reads the results of all [Runs] from a directory. A file that is not there
// is no error.
func Load(dir string) (Results, error) {
	all := make(Results)
	var errs []error
	for _, run := range Runs() {
		text, err := os.ReadFile(filepath.Join(dir, run.Name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r Result
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("result %s: %w", run.Name, err))
			continue
		}
		all[run.Name] = r
	}
	return all, errors.Join(errs...)
}

// number is a figure of the result.
func (r Result) number(key string) (float64, bool) {
	f, ok := r[key].(float64)
	return f, ok
}

// text is a fact of the result; "unknown" if it does not tell.
func (r Result) text(key string) string {
	switch v := r[key].(type) {
	case string:
		if v != "" {
			return v
		}
	case float64:
		return plain(v)
	}
	return "unknown"
}

// versions are those of what was measured with.
func (r Result) versions() string {
	list := []string{r.text("go_version")}
	for _, key := range slices.Sorted(maps.Keys(r)) {
		if name, ok := strings.CutSuffix(key, "_version"); ok && name != "go" {
			list = append(list, name+" "+r.text(key))
		}
	}
	return strings.Join(list, ", ")
}

// fault says why a result is no proof of anything; empty if it is.
func (run *Run) fault(r Result) string {
	for _, key := range slices.Sorted(maps.Keys(run.Shape)) {
		if got, _ := r.number(key); got != run.Shape[key] {
			return fmt.Sprintf("measured with %s %s, not %s", key, plain(got), plain(run.Shape[key]))
		}
	}
	return ""
}

// harmful are counts that have to be 0 in a run of which anything is told.
func harmful() []string {
	return []string{"jobs_lost", "jobs_duplicated", "jobs_early", "jobs_refused", "jobs_unaccounted", "rows_left", "chaos_breaches"}
}

// harm says what went wrong in a run; empty if nothing did.
func (r Result) harm() string {
	var list []string
	for _, key := range harmful() {
		if n, ok := r.number(key); ok && n != 0 {
			list = append(list, fmt.Sprintf("%s %s", key, plain(n)))
		}
	}
	if why, ok := r["failure"].(string); ok && len(list) == 0 {
		list = append(list, why)
	}
	return strings.Join(list, ", ")
}

// plain writes a figure with three digits that matter, whole numbers in full.
func plain(f float64) string {
	a := math.Abs(f)
	switch {
	case f == math.Trunc(f) || a >= 100:
		return thousands(strconv.FormatFloat(math.Round(f), 'f', 0, 64))
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// thousands puts commas in a whole number.
func thousands(s string) string {
	digits := strings.TrimPrefix(s, "-")
	sign := s[:len(s)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
