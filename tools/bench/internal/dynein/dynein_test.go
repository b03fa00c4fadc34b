package dynein_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/dynein"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// inside is a scheduler in this process.
type inside struct {
	stop    context.CancelFunc
	running *sync.WaitGroup
}

func (p inside) CPU() (time.Duration, error) {
	used, _ := host.CPU()
	return used, nil
}

func (p inside) Close() error {
	p.stop()
	p.running.Wait()
	return nil
}

// small is a run over an endpoint and schedulers in this process.
func small(t *testing.T) *dynein.Options {
	t.Helper()
	n := null.Options{}
	n.Queues.Sink, n.Queues.SinkIDs = true, true
	e, err := null.New(n)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	o := &dynein.Options{}
	o.Bind(settings.New("dynein", ""))
	o.Endpoint, o.Jobs, o.Rate, o.Partitions, o.Services, o.Patience = "http://"+l.Addr().String(), 300, 600, 8, 3, 20*time.Second
	o.Start = func(index, count int) (dynein.Process, error) {
		c := o.Part(index, count)
		p, err := platform.Open(ctx, platform.Options{Endpoint: c.Endpoint, Region: "us-east-1"})
		if err != nil {
			return nil, err
		}
		s, err := c.Scheduler(p, func(err error) { t.Error(err) })
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(ctx)
		running := &sync.WaitGroup{}
		running.Go(func() { s.Run(ctx) })
		return inside{stop, running}, nil
	}
	return o
}

func TestEveryJobOfTheBaselineIsDeliveredOnceAndLeavesNoRow(t *testing.T) {
	o := small(t)
	o.Schedulers, o.Workers = 2, 2
	r, err := dynein.Run(t.Context(), *o)
	require.NoError(t, err)
	require.NoError(t, r.Failure())

	// What makes it the published algorithm.
	ops := r.Stats.Operations
	for _, op := range []string{"SQS.SendMessage", "DynamoDB.UpdateItem", "DynamoDB.DeleteItem"} {
		require.Equal(t, int64(o.Jobs), ops[op].Requests, op)
	}
	require.GreaterOrEqual(t, ops["DynamoDB.Query"].Requests, int64(o.Jobs/o.Limit), "ten rows a query at most")
	require.Zero(t, ops["DynamoDB.BatchExecuteStatement"].Requests)
	require.Zero(t, ops["SQS.SendMessageBatch"].Requests)

	var out strings.Builder
	require.NoError(t, r.WriteJSON(&out))
	var flat map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &flat))
	for _, key := range []string{
		"scheduler_cpu_us_per_job", "requests_per_job", "jobs_per_s", "jobs_per_s_per_core", "lateness_p50_ms", "lateness_p99_ms",
		"write_units_per_job", "jobs_lost", "label", "cores", "requests_scheduler_dynamodb_update_item",
	} {
		require.Contains(t, flat, key)
	}
	for key := range flat {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, key)
	}
	require.InDelta(t, 2, flat["write_units_per_job"], 0.01, "an acquire and a delete; the insert came before")
	out.Reset()
	require.NoError(t, r.WriteText(&out))
	require.Contains(t, out.String(), "as we read it")
}

func TestTwoSchedulersShareThePartitions(t *testing.T) {
	o := dynein.Options{Partitions: 5}
	require.Equal(t, []int{0, 2, 4}, o.Part(0, 2).Partitions)
	require.Equal(t, []int{1, 3}, o.Part(1, 2).Partitions)
}

func TestOptionsOutOfRangeAreReportedTogether(t *testing.T) {
	o := dynein.Options{Rate: -1, Jobs: -1}
	err := o.Validate()
	for _, flag := range []string{"--jobs", "--rate", "--workers", "--limit", "--patience"} {
		require.ErrorContains(t, err, flag)
	}
	o.Bind(settings.New("dynein", ""))
	require.NoError(t, o.Validate())
	_, err = dynein.Run(t.Context(), o)
	require.ErrorContains(t, err, "endpoint")
}
