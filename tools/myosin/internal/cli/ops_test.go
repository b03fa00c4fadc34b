package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

func TestAServiceIsAddedWithItsQueuesAndAddedAgainWithoutHarm(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "[]\n", r.run("services", "list", "--json").is(cli.ExitOK, "").out)
	v := r.run("services", "add", "pay", "--rate", "50", "--owner", "team-pay", "--urgent-queue", "--json").is(cli.ExitOK, "").keys()
	require.Equal(t, "pay", v["name"])
	require.InDelta(t, 50, v["rate"], 0)
	require.Equal(t, "team-pay", v["owner"])
	for _, name := range []string{"-svc-pay", "-svc-pay-dlq", "-svc-pay-urgent"} {
		_, err := r.Queues.URL(t.Context(), r.Names.Prefix+name)
		require.NoError(t, err, name)
	}
	r.run("services", "pause", "pay").is(cli.ExitOK, "")
	v = r.run("services", "add", "pay", "--rate", "7", "--json").is(cli.ExitOK, "").keys()
	require.InDelta(t, 7, v["rate"], 0)
	require.Equal(t, "team-pay", v["owner"], "what no flag names stays")
	require.Equal(t, true, v["paused"])
	require.Contains(t, v, "urgent_queue_url")
	r.run("services", "add", "pay", "--fifo").is(cli.ExitConflict, "cannot be changed")
	require.Contains(t, r.run("services", "add", "orders", "--fifo").is(cli.ExitOK, "").out, "-svc-orders.fifo")

	var list []map[string]any
	r.run("services", "list", "--json").json(&list)
	require.Len(t, list, 2)
	require.Equal(t, "orders", list[0]["name"])
	require.Equal(t, true, list[0]["fifo"])
	human := r.run("services", "list").out
	require.Contains(t, human, "NAME")
	require.Contains(t, human, "fifo")

	for name, says := range map[string]string{"Bad": "a-z", "pay-dlq": "reserved", "myosin-inbound": "reserved"} {
		r.run("services", "add", name).is(cli.ExitRefused, says)
	}
	r.run("services", "add", "pay", "--rate", "-1").is(cli.ExitRefused, "rate")
}

func TestQueuesOfTerraformAreLeftAlone(t *testing.T) {
	r := newRig(t)
	url := "https://sqs.eu-west-1.amazonaws.com/123456789012/theirs"
	require.NoError(t, r.Source.Put(t.Context(), registry.Service{Name: "pay", QueueURL: url}))
	require.Equal(t, url, r.run("services", "add", "pay", "--rate", "5", "--json").is(cli.ExitOK, "").keys()["queue_url"])
	_, err := r.Queues.URL(t.Context(), r.Names.ServiceQueue("pay", false))
	require.ErrorIs(t, err, queue.ErrMissing)
	r.run("services", "add", "pay", "--urgent-queue").is(cli.ExitConflict, "not made here")
}

func TestAServiceIsPausedResumedAndItsRateChanged(t *testing.T) {
	r := newRig(t)
	r.service("pay")
	require.Equal(t, true, r.run("services", "pause", "pay", "--json").is(cli.ExitOK, "").keys()["paused"])
	require.Contains(t, r.run("services", "show", "pay").is(cli.ExitOK, "").out, "paused")
	require.Equal(t, false, r.run("services", "resume", "pay", "--json").is(cli.ExitOK, "").keys()["paused"])
	require.InDelta(t, 2.5, r.run("services", "rate", "pay", "2.5", "--json").is(cli.ExitOK, "").keys()["rate"], 0)
	show := r.run("services", "show", "pay", "--json").is(cli.ExitOK, "").keys()
	require.Contains(t, show, "queue")
	require.Contains(t, show, "dlq")
	r.run("services", "rate", "pay", "fast").is(cli.ExitUsage, `"fast"`)
	r.run("services", "rate", "pay", "--", "-1").is(cli.ExitRefused, "rate")
	for _, args := range [][]string{{"pause", "nobody"}, {"resume", "nobody"}, {"rate", "nobody", "1"}, {"show", "nobody"}} {
		r.run(append([]string{"services"}, args...)...).is(cli.ExitNotFound, "myosin services add nobody")
	}
}

func TestPartitionsGrowAheadOfTimeAndNeverShrink(t *testing.T) {
	r := newRig(t)
	v := r.run("partitions", "show", "--json").is(cli.ExitOK, "").keys()
	require.InDelta(t, 4, v["current"], 0)
	r.run("partitions", "grow", "2", "--yes").is(cli.ExitRefused, "only grow")
	r.run("partitions", "grow", "1001", "--yes").is(cli.ExitRefused, "at most 1000")
	r.run("partitions", "grow", "many").is(cli.ExitUsage, "many")
	r.run("partitions", "grow", "8", "--in", "59s", "--yes").is(cli.ExitUsage, "want 1m0s or more")
	r.run("partitions", "grow", "8").is(cli.ExitUsage, "give --yes")
	r.host.InTerminal = true
	r.host.In = strings.NewReader("n\n")
	r.run("partitions", "grow", "8").is(cli.ExitUsage, "nothing was changed")
	r.host.In = strings.NewReader("y\n")
	before := time.Now()
	v = r.run("partitions", "grow", "8", "--json").is(cli.ExitOK, "from 4 to 8").keys()
	require.Equal(t, true, v["changed"])
	epochs, err := r.Store.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, epochs.At(time.Now()))
	require.Equal(t, 8, epochs.Max())
	require.WithinDuration(t, before.Add(2*time.Minute), epochs[1].From, 5*time.Second)
	require.Contains(t, r.run("partitions", "show").out, "starts in")
	v = r.run("partitions", "grow", "8", "--json").is(cli.ExitOK, "already").keys()
	require.Equal(t, false, v["changed"])
	r.run("partitions", "grow", "16", "--in", "1m", "--yes").is(cli.ExitConflict, "longer --in")
	r.run("partitions", "grow", "16", "--in", "5m", "--yes").is(cli.ExitOK, "")
}

func TestTriggersAreListedSoonestFirstOverAllPartitions(t *testing.T) {
	r := newRig(t)
	due := make(map[string]time.Duration)
	for i := range 20 {
		tr := r.trigger("hello", time.Duration(20-i)*time.Minute)
		tr.Lane = trigger.Lanes[i%2]
		due[r.insert(tr, trigger.StateScheduled)] = time.Duration(20-i) * time.Minute
	}
	r.insert(r.trigger("hello", -time.Hour), trigger.StateMaybeSent)
	far := r.insert(r.trigger("hello", 72*time.Hour), trigger.StateScheduled)
	r.insert(r.trigger("other", time.Minute), trigger.StateScheduled)
	r.run("cancel", r.insert(r.trigger("hello", time.Minute), trigger.StateScheduled)).is(cli.ExitOK, "")

	type head struct {
		Handle, State, Lane, Service string
		Due                          time.Time
	}
	list := func(args ...string) []head {
		var l []head
		res := r.run(append([]string{"triggers", "list", "--service", "hello", "--json"}, args...)...).is(cli.ExitOK, "")
		require.NotContains(t, res.out, "secret")
		res.json(&l)
		for i := range l[1:] {
			require.False(t, l[i+1].Due.Before(l[i].Due), "sorted by due time")
		}
		return l
	}
	all := list()
	require.Len(t, all, 21)
	require.Equal(t, "scheduled_maybe_sent", all[0].State, "the overdue one comes first")
	for _, h := range all[1:] {
		require.Contains(t, due, h.Handle)
	}
	require.Len(t, list("--lane", "urgent"), 10)
	require.Len(t, list("--cancelled"), 22)
	some := list("--limit", "5")
	require.Equal(t, all[:5], some)
	require.Contains(t, r.run("triggers", "list", "--service", "hello", "--limit", "5").err, "there are more")
	require.Len(t, list("--from", "now", "--to", "+10m30s"), 10)
	later := list("--from", "+2d", "--to", "+4d")
	require.Len(t, later, 1)
	require.Equal(t, far, later[0].Handle)
	require.Contains(t, r.run("triggers", "list", "--service", "hello", "--from", "+5d", "--to", "+6d").err, "no triggers")
	r.run("triggers", "list", "--service", "hello", "--from", "+2d", "--to", "+1d").is(cli.ExitUsage, "--from")
	r.run("triggers", "list", "--service", "hello", "--limit", "0").is(cli.ExitUsage, "--limit")
	r.run("triggers", "list").is(cli.ExitUsage, `"service"`)
}

func TestDeadTriggersAreListedWithTheirReasonAndRedriven(t *testing.T) {
	r := newRig(t)
	one := r.bury("hello", "queue refused the message", -time.Hour)
	r.bury("hello", "again", -2*time.Hour)
	r.bury("hello", "and again", -3*time.Hour)
	waiting := r.insert(r.trigger("hello", time.Hour), trigger.StateScheduled)

	var dead []map[string]any
	res := r.run("triggers", "dead", "--service", "hello", "--json").is(cli.ExitOK, "").json(&dead)
	require.NotContains(t, res.out, "secret")
	require.Len(t, dead, 3)
	require.Equal(t, one, dead[2]["handle"], "oldest due first")
	require.Equal(t, "queue refused the message", dead[2]["reason"])
	require.Equal(t, "remind", dead[2]["name"])
	require.Contains(t, r.run("triggers", "dead", "--service", "hello", "--show-payload").out, "top secret")
	require.Contains(t, r.run("triggers", "dead", "--service", "hello", "--limit", "2").err, "there are more")
	require.Equal(t, "[]\n", r.run("triggers", "dead", "--service", "other", "--json").is(cli.ExitOK, "").out)

	r.run("triggers", "redrive", one).is(cli.ExitUsage, "give --yes")
	v := r.run("triggers", "redrive", one, "--yes", "--json").is(cli.ExitOK, "").keys()
	require.Equal(t, true, v["redriven"])
	require.Equal(t, "scheduled_maybe_sent", r.run("get", one, "--json").keys()["state"])
	r.run("triggers", "redrive", waiting, "--yes").is(cli.ExitConflict, "trigger is scheduled")
	res = r.run("triggers", "redrive", waiting, dead[0]["handle"].(string), "--yes", "--json").is(cli.ExitConflict, "1 of 2 were not redriven")
	require.Equal(t, 2, strings.Count(res.out, "\n"), "one line each")
	res = r.run("triggers", "redrive", "--service", "hello", "--all", "--yes", "--json").is(cli.ExitOK, "1 redriven")
	require.Equal(t, 1, strings.Count(res.out, "\n"))
	r.run("triggers", "redrive", "--service", "hello", "--all", "--yes").is(cli.ExitOK, "no dead triggers")
	for _, args := range [][]string{{}, {"--all"}, {one, "--all", "--service", "hello"}, {"--service", "hello"}} {
		r.run(append([]string{"triggers", "redrive", "--yes"}, args...)...).is(cli.ExitUsage, "myosin triggers redrive --help")
	}
}

func TestTheDrainIsPausedAndResumed(t *testing.T) {
	r := newRig(t)
	paused := func() bool {
		_, err := r.Services.Refresh(t.Context())
		require.NoError(t, err)
		return r.DrainPaused()
	}
	require.Equal(t, true, r.run("inbound", "pause", "--json").is(cli.ExitOK, "").keys()["paused"])
	require.True(t, paused())
	v := r.run("inbound", "show", "--json").is(cli.ExitOK, "").keys()
	require.Equal(t, true, v["paused"])
	require.Contains(t, v, "standard")
	require.Equal(t, "[]\n", r.run("services", "list", "--json").out, "the switch is no service")
	r.run("services", "pause", "myosin-inbound").is(cli.ExitRefused, "myosin inbound pause|resume")
	r.run("inbound", "resume").is(cli.ExitOK, "")
	require.False(t, paused())
}
