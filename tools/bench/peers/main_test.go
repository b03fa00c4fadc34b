package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongCommandsAndFlagsExitWithTwo(t *testing.T) {
	for _, args := range [][]string{{}, {"celery"}, {"asynq", "--nothing"}, {"river", "--rate", "-1"}, {"myosin", "--jobs", "-1"}} {
		require.Equal(t, 2, start(args), args)
	}
	require.Equal(t, 0, start([]string{"help"}))
	require.Equal(t, 0, start([]string{"all", "--help"}))
}
