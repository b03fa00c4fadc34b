package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/peer"
)

func some() *Report {
	r := &Report{Load: load.Load{Jobs: 10, Rate: 5, Payload: 300}}
	for _, v := range Variants("all") {
		one := &Result{Variant: v, Server: time.Millisecond, Commands: 20}
		one.Client = peer.Client{Submitted: load.Submitted{Accepted: 10}, CPU: 2 * time.Millisecond, Operations: peer.Operations{"select": 10}}
		one.Worker = peer.Worker{Handled: load.Handled{Jobs: 10, Took: time.Second}, CPU: time.Millisecond, Operations: peer.Operations{"select": 30}}
		if v.Peer == peer.Myosin {
			one.Platform = map[string]time.Duration{peer.Inbound: time.Millisecond, peer.Scheduler: 2 * time.Millisecond}
		}
		r.Results = append(r.Results, one)
	}
	return r
}

func TestTheReportIsFlatAndSaysWhatIsNotComparable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, some().WriteJSON(&out))
	var flat map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &flat))
	for key, value := range flat {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, key)
		require.NotContains(t, []string{"map[string]interface {}", "[]interface {}"}, fmt.Sprintf("%T", value), key)
	}
	for _, name := range []string{"asynq_default", "asynq_tuned", "river_default", "river_tuned", "relational", "myosin"} {
		require.InDelta(t, 200, flat[name+"_client_cpu_us_per_job"], 0.1)
		require.InDelta(t, 300, flat[name+"_client_worker_cpu_us_per_job"], 0.1)
		require.Contains(t, flat, name+"_lateness_p99_ms")
		require.Contains(t, flat, name+"_durability")
	}
	require.InDelta(t, 600, flat["myosin_all_but_server_cpu_us_per_job"], 0.1)
	require.InDelta(t, 4, flat["relational_select_per_job"], 0.1)
	out.Reset()
	require.NoError(t, some().WriteText(&out))
	require.Contains(t, out.String(), "not comparable")
}

func TestARunWithAJobAmissIsAFailure(t *testing.T) {
	r := some().Results[0]
	require.NoError(t, r.Failure())
	r.Worker.Jobs--
	require.ErrorContains(t, r.Failure(), "1 jobs lost")
	r.Client.Refused, r.Client.Trouble = 2, "no route"
	require.ErrorContains(t, r.Failure(), "no route")
}
