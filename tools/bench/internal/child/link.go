package child

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Link is the child's side of the pipes to its parent.
type Link struct {
	in io.Reader

	mu  sync.Mutex
	out io.Writer
}

// NewLink makes a link of a child's standard input and output.
func NewLink(in io.Reader, out io.Writer) *Link { return &Link{in: in, out: out} }

// Ready tells the parent that the child may be used, and something with it.
func (l *Link) Ready(text string) error { return l.line(markReady + text) }

// Tell tells the parent something, in one line.
func (l *Link) Tell(text string) error { return l.line(markTold + text) }

func (l *Link) line(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.out, text+"\n"); err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	return nil
}

// Serve answers the parent's questions until standard input ends: the child is
// to end then. What an answer returns is sent as JSON.
func (l *Link) Serve(answers map[string]func() (any, error)) error {
	lines := scanner(l.in)
	for lines.Scan() {
		var a answer
		if do, ok := answers[lines.Text()]; !ok {
			a.Error = fmt.Sprintf("%q is no question here", lines.Text())
		} else if v, err := do(); err != nil {
			a.Error = err.Error()
		} else if a.Value, err = json.Marshal(v); err != nil {
			a.Error = err.Error()
		}
		text, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("answer the parent: %w", err)
		}
		if err := l.line(markAnswer + string(text)); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("hear the parent: %w", err)
	}
	return nil
}
