package child_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
)

// TestMain lets the test's program be its own child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "role" {
		os.Exit(role(os.Args[2]))
	}
	os.Exit(m.Run())
}

func role(name string) int {
	switch name {
	case "mute":
		return 3
	case "other":
		fmt.Println("some line\nother-ready yes")
	}
	l := child.NewLink(os.Stdin, os.Stdout)
	if l.Ready("here") != nil || l.Tell("one thing") != nil || l.Tell("another") != nil {
		return 4
	}
	fmt.Println("a line for nobody")
	burn := 0
	if l.Serve(map[string]func() (any, error){
		"sum": func() (any, error) {
			for i := range 200_000_000 {
				burn += i % 3
			}
			return map[string]int{"n": 7}, nil
		},
		"fail": func() (any, error) { return nil, fmt.Errorf("no luck after %d", burn) },
	}) != nil {
		return 5
	}
	return 0
}

func TestAChildAnswersTellsAndEndsWithItsInput(t *testing.T) {
	var mu sync.Mutex
	var told []string
	p, err := child.Start(t.Context(), child.Options{Name: "a role", Args: []string{"role", "any"}, Told: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, line)
	}})
	require.NoError(t, err)
	require.Equal(t, "here", p.Ready())
	before, err := p.CPU()
	require.NoError(t, err)
	var got map[string]int
	require.NoError(t, p.Ask("sum", &got))
	require.Equal(t, 7, got["n"])
	require.ErrorContains(t, p.Ask("fail", nil), "no luck")
	require.ErrorContains(t, p.Ask("nonsense", nil), "no question")
	after, peak, err := child.Used(p)
	require.NoError(t, err)
	require.Greater(t, after, before, "it has worked")
	require.Greater(t, peak, int64(1<<20))
	require.NoError(t, p.Stop())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "one thing, another", strings.Join(told, ", "))
	require.Error(t, p.Ask("sum", nil), "it is gone")
	_, err = p.CPU()
	require.Error(t, err)
}

func TestTheReadyLineMayBeAnothersOwn(t *testing.T) {
	p, err := child.Start(t.Context(), child.Options{Name: "other", Args: []string{"role", "other"}, Ready: "other-ready "})
	require.NoError(t, err)
	require.Equal(t, "yes", p.Ready())
	require.NoError(t, p.Stop())
}

func TestAChildThatEndsBeforeItIsReadyIsAnError(t *testing.T) {
	_, err := child.Start(t.Context(), child.Options{Name: "mute", Args: []string{"role", "mute"}})
	require.ErrorContains(t, err, "start mute")
	require.ErrorContains(t, err, "exit status 3")
}
