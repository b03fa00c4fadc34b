package telemetry_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

func TestRequestsUnderWayHaveTheGraceToFinish(t *testing.T) {
	status := func(grace, takes time.Duration) error {
		began := make(chan struct{})
		s, err := telemetry.NewServer(telemetry.ServerOptions{
			Addr: "127.0.0.1:0", Grace: grace,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(began)
				timer := time.NewTimer(takes)
				defer timer.Stop()
				select {
				case <-timer.C:
					w.WriteHeader(http.StatusNoContent)
				case <-r.Context().Done():
				}
			}),
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ran, answered := make(chan error, 1), make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		go func() {
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.Addr() + "/")
			if err == nil {
				err = resp.Body.Close()
			}
			answered <- err
		}()
		<-began
		stop()
		require.NoError(t, <-ran)
		return <-answered
	}
	require.NoError(t, status(10*time.Second, 200*time.Millisecond))
	require.Error(t, status(50*time.Millisecond, 10*time.Second), "what takes longer is cut")
	_, err := telemetry.NewServer(telemetry.ServerOptions{Addr: "127.0.0.1:0", Grace: -1})
	require.ErrorContains(t, err, "grace")
}
