package peer_test

import (
	"context"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/peer"
)

// The peers with servers of their own are for runs by hand; Myosin's part needs none.
func TestEveryJobOfMyosinsPartIsHandledOnceAndNotEarly(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	engine := kumo.NewServer()
	t.Cleanup(engine.Close)
	c := peer.Config{Peer: peer.Myosin, Addr: engine.URL, Load: load.Load{
		Jobs: 40, Rate: 40, Payload: 300, LeadMin: time.Second, LeadMax: 2 * time.Second, Patience: 30 * time.Second,
	}}
	require.NoError(t, peer.Prepare(t.Context(), &c))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 2)
	for _, name := range []string{peer.Inbound, peer.Scheduler} {
		ready := make(chan struct{})
		go func() {
			_, err := peer.Serve(ctx, name, c, func() { close(ready) })
			served <- err
		}()
		<-ready
	}
	handled := make(chan *peer.Worker, 1)
	ready := make(chan struct{})
	go func() {
		w, err := peer.Handle(ctx, c, func() { close(ready) })
		if err != nil {
			t.Error(err)
		}
		handled <- w
	}()
	<-ready
	submitted, err := peer.Submit(ctx, c, func() {})
	require.NoError(t, err)
	require.Equal(t, c.Load.Jobs, submitted.Accepted, submitted.Trouble)
	w := <-handled
	require.NotNil(t, w)
	require.Equal(t, c.Load.Jobs, w.Jobs)
	require.Zero(t, w.Early)
	require.Zero(t, w.Repeated)
	require.Zero(t, w.Strange)
	stop()
	require.NoError(t, <-served)
	require.NoError(t, <-served)
}

func TestAPeerThatIsUnknownIsRefused(t *testing.T) {
	c := peer.Config{Peer: "celery"}
	require.Error(t, peer.Prepare(t.Context(), &c))
	_, err := peer.Submit(t.Context(), c, func() {})
	require.Error(t, err)
	_, err = peer.Handle(t.Context(), c, func() {})
	require.Error(t, err)
	_, err = peer.Serve(t.Context(), "celery", c, func() {})
	require.Error(t, err)
}
