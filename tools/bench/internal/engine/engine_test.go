package engine_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
)

// TestMain lets the test's program be the engine's child, as bench itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engine.Command {
		if engine.Serve(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheEngineAnswersFromItsOwnProcessAndEndsWithItsParentsPipe(t *testing.T) {
	e, err := engine.Start(t.Context())
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL()+"/health", http.NoBody)
	require.NoError(t, err)
	client := &http.Client{}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = e.CPU()
	require.NoError(t, err)
	require.NoError(t, e.Close())
	_, err = client.Do(req) //nolint:bodyclose // there is none.
	require.Error(t, err, "it is gone")
	_, err = e.CPU()
	require.Error(t, err)
}
