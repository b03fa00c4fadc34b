package platform_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func open(t *testing.T) *platform.Platform {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	p, err := platform.Open(t.Context(), platform.Options{
		Prefix: fmt.Sprintf("p%x", time.Now().UnixNano()%1e9), Endpoint: srv.URL,
	})
	require.NoError(t, err)
	return p
}

func TestEnsureCreatesWhatOpenThenFinds(t *testing.T) {
	p := open(t)
	require.Error(t, p.Reach(t.Context()), "there is no table yet")
	_, err := p.Buffers(t.Context())
	require.ErrorIs(t, err, queue.ErrMissing)
	require.ErrorContains(t, err, p.Names.Inbound(trigger.Urgent))

	made, err := p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	again, err := p.Ensure(t.Context(), 8)
	require.NoError(t, err, "ensuring twice changes nothing")
	require.Equal(t, made, again)
	epochs, err := p.Store.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, epochs.Max(), "partitions never change behind the schedulers' back")
	require.NoError(t, p.Reach(t.Context()))
	require.NoError(t, p.Clock.Usable(), "the first answer sets the clock")
	found, err := p.Buffers(t.Context())
	require.NoError(t, err)
	require.Equal(t, made, found)

	svc, err := p.EnsureService(t.Context(), registry.Service{Name: "hello", Rate: 5}, true)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(svc.QueueURL, "/"+p.Names.Prefix+"-svc-hello"))
	require.True(t, strings.HasSuffix(svc.UrgentQueueURL, "/"+p.Names.Prefix+"-svc-hello-urgent"))
	got, err := p.Services.Lookup(t.Context(), "hello")
	require.NoError(t, err)
	require.Equal(t, svc.QueueURL, got.QueueURL)
	minute := time.Now().Truncate(time.Minute)
	require.NoError(t, p.Forecast.Add(t.Context(), "hello", minute, 1), "its table is there, too")
	points, err := p.Forecast.Range(t.Context(), "hello", minute, minute.Add(time.Minute))
	require.NoError(t, err)
	require.Len(t, points, 1)
	j := job.Job{ID: trigger.NewID(), Spec: job.Spec{Tenant: "acme"}, Status: job.JobIsActive, Generation: 1}
	run := job.NewRun(j.ID, 1, minute)
	require.NoError(t, p.Jobs.Commit(t.Context(), jobstore.Tx{Create: &j, Runs: []job.Run{run}}), "and so are those of jobs and runs")
	_, err = p.Jobs.Run(t.Context(), run.ID)
	require.NoError(t, err)
	_, err = p.EnsureService(t.Context(), registry.Service{Name: "hello-dlq"}, false)
	require.ErrorContains(t, err, "reserved")
}

func TestTheDrainIsPausedForEveryProcess(t *testing.T) {
	p := open(t)
	_, err := p.Ensure(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, p.PauseDrain(t.Context(), false), "resuming what was never paused")
	for _, want := range []bool{true, false, true} {
		require.NoError(t, p.PauseDrain(t.Context(), want))
		_, err = p.Services.Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, p.DrainPaused())
	}
	_, err = p.EnsureService(t.Context(), registry.Service{Name: "hello"}, false)
	require.NoError(t, err)
	_, err = p.Services.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"hello"}, p.ServiceNames(), "the switch is no service")
	svc, err := p.Source.Get(t.Context(), platform.DrainSwitch)
	require.NoError(t, err)
	require.False(t, svc.Allows("AIDAEXAMPLE"), "nobody submits to the switch")
}

func TestEveryNameFitsWhatSQSTakes(t *testing.T) {
	n := platform.Names{Prefix: strings.Repeat("p", 14)}
	require.NoError(t, n.Validate())
	service := strings.Repeat("s", trigger.MaxService)
	for _, name := range []string{n.ServiceQueue(service, true), n.ServiceUrgentQueue(service, true), n.ServiceDLQ(service, true)} {
		require.LessOrEqual(t, len(name), 80)
	}
	for _, bad := range []string{"", "-a", "a-", "a_b", strings.Repeat("p", 15)} {
		require.Error(t, platform.Names{Prefix: bad}.Validate(), bad)
	}
	require.Equal(t, "myosin-inbound-urgent", platform.Names{Prefix: "myosin"}.Inbound(trigger.Urgent))
	require.Equal(t, "myosin-svc-hello-dlq", platform.Names{Prefix: "myosin"}.ServiceDLQ("hello", false))
}

// A machine whose clock is off, or was stepped since the process counted on by
// its own: the correction must be measured against the clock that it corrects.
func TestAClockThatIsOffIsCorrectedByTheFirstAnswer(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	for _, off := range []time.Duration{20 * time.Second, -20 * time.Second} {
		p, err := platform.Open(t.Context(), platform.Options{
			Prefix: "off", Endpoint: srv.URL, Local: func() time.Time { return time.Now().Add(off) },
		})
		require.NoError(t, err)
		_ = p.Reach(t.Context()) // there is no table: an answer all the same
		skew, known := p.Clock.Skew()
		require.True(t, known)
		require.InDelta(t, off.Seconds(), skew.Seconds(), 1.5)
		lag := time.Since(p.Clock.Now())
		require.GreaterOrEqual(t, lag, time.Duration(0), "it runs ahead of the server's")
		require.Less(t, lag, 4*time.Second)
	}
}
