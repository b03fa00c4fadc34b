package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

// printer writes results, for people or for scripts. It may be used concurrently.
type printer struct {
	out, err io.Writer
	json     bool
	mu       sync.Mutex
}

// object prints one result: v as one line of JSON, or the text.
func (p *printer) object(v any, format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		return p.encode(v)
	}
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	return printed(err)
}

// fields prints one result as an aligned list of names and values; pairs with an
// empty value are left out.
func (p *printer) fields(v any, pairs ...[2]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		return p.encode(v)
	}
	w := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	for _, pair := range pairs {
		if pair[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pair[0], pair[1])
		}
	}
	return printed(w.Flush())
}

// table prints a list: v as a JSON array, or the rows under a header. empty is
// said instead of a table without rows.
func (p *printer) table(v any, empty, header string, rows [][]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.json:
		return p.encode(v)
	case len(rows) == 0:
		_, err := fmt.Fprintln(p.err, empty)
		return printed(err)
	}
	w := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return printed(w.Flush())
}

// note tells people something that is no result.
func (p *printer) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.err, format+"\n", args...)
}

func (p *printer) encode(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return printed(e.Encode(v))
}

func printed(err error) error {
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// confirm asks a person before something that cannot be taken back. With yes it
// asks nobody; where nobody can be asked, it refuses.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.host.InTerminal {
		return usage("%s: there is nobody to ask; give --yes", question)
	}
	var answer string
	a.wait(func() {
		fmt.Fprintf(a.host.Err, "%s [y/N] ", question)
		answer, _ = bufio.NewReader(a.host.In).ReadString('\n')
	})
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return usage("not confirmed: nothing was changed")
}

// progress is a line on a terminal that is rewritten, and nothing elsewhere. It
// may be used concurrently.
type progress struct {
	app  *app
	what string

	mu          sync.Mutex
	done, total int
	shown       time.Time
	width       int
}

func (a *app) progress(what string, total int) *progress {
	return &progress{app: a, what: what, total: total}
}

// step counts one thing done. It keeps the command alive: see --timeout.
func (p *progress) step() {
	p.app.progressed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if !p.app.host.ErrTerminal || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	text := fmt.Sprintf("%s: %d", p.what, p.done)
	if p.total > 0 {
		text += fmt.Sprintf(" of %d", p.total)
	}
	p.width = max(p.width, len(text))
	fmt.Fprintf(p.app.host.Err, "\r%-*s", p.width, text)
}

// end wipes the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprintf(p.app.host.Err, "\r%-*s\r", p.width, "")
		p.width = 0
	}
}

// stamp is a time for people.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// stampUntil is a time for people, with its distance from now.
func stampUntil(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t) + " (" + when.Until(t, now) + ")"
}

// body is bytes of a caller as JSON shows them: text where it is text.
type body struct {
	Payload    *string `json:"payload,omitempty"`
	PayloadB64 []byte  `json:"payload_base64,omitempty"`
}

func bodyOf(b []byte) body {
	if !utf8.Valid(b) {
		return body{PayloadB64: b}
	}
	s := string(b)
	return body{Payload: &s}
}

// visible is a caller's text for a terminal: quoted where it has anything that
// a terminal could act upon.
func visible(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}
