package settings_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	s := settings.New("x", "a test")
	a := s.String("a", "X_A", "default", "a")
	b := s.Int("b", "X_B", 1, "b")
	c := s.Duration("c", "X_C", time.Second, "c")
	d := s.Bool("d", "X_D", true, "d")
	e := s.Float("e", "X_E", 1.5, "e")
	f := s.String("f", "X_F", "kept", "f")
	require.NoError(t, s.Parse([]string{"--a", "flag", "--d=false"}, env(map[string]string{
		"X_A": "env", "X_B": "2", "X_C": "3s", "X_D": "true", "X_E": "2.5", "X_F": "",
	}), io.Discard))
	require.Equal(t, "flag", *a)
	require.Equal(t, 2, *b)
	require.Equal(t, 3*time.Second, *c)
	require.False(t, *d)
	require.InDelta(t, 2.5, *e, 0)
	require.Equal(t, "kept", *f, "an empty variable counts as none")
}

func TestEveryFaultIsReportedAtOnceByName(t *testing.T) {
	s := settings.New("x", "a test")
	s.Int("b", "X_B", 1, "b")
	s.Duration("c", "X_C", time.Second, "c")
	s.String("token", "X_TOKEN", "t0p", "t")
	s.Int("pin", "X_PIN", 1, "p")
	s.Secret("pin")
	err := s.Parse([]string{"stray"}, env(map[string]string{"X_B": "two", "X_C": "3", "X_PIN": "hush"}), io.Discard)
	require.ErrorContains(t, err, `environment X_B: "two" is not a number`)
	require.ErrorContains(t, err, `environment X_C: "3" is not a duration`)
	require.ErrorContains(t, err, `unexpected argument "stray"`)
	require.NotContains(t, err.Error(), "hush")
	require.ErrorContains(t, settings.New("x", "").Parse([]string{"--nope"}, env(nil), io.Discard), "-nope")
}

func TestHelpShowsTheEnvironmentNameOfEveryFlag(t *testing.T) {
	s := settings.New("x", "a test")
	s.String("addr", "X_ADDR", ":1", "where it listens")
	s.String("token", "X_TOKEN", "t0p", "credential")
	s.Secret("token")
	var out bytes.Buffer
	require.ErrorIs(t, s.Parse([]string{"--help"}, env(nil), &out), settings.ErrHelp)
	require.Contains(t, out.String(), "--addr text  (X_ADDR)\n        where it listens [default \":1\"]")
	require.Contains(t, out.String(), "X_TOKEN")
	require.NotContains(t, out.String(), "t0p")
}
