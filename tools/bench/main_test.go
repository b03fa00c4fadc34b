package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongCommandsAndFlagsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{{}, {"nothing"}, {"core", "--nothing"}, {"core", "--rate", "-1"}, {"core", "--lead-time", "soon"},
		{"endpoint", "--limits", "some"}, {"endpoint", "--nothing"}} {
		require.Equal(t, 2, run(args), args)
	}
	require.Equal(t, 0, run([]string{"help"}))
	require.Equal(t, 0, run([]string{"core", "--help"}))
	require.Equal(t, 0, run([]string{"endpoint", "--help"}))
}
