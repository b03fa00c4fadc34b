package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// A thousand jobs are told their fates beforehand, in their payloads; each must
// meet its own, with workers stopped and started in between and faults of the
// engine. Only faults that can cause a second run are counted for it.
func TestThousandMessagesEndExactlyAsTold(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, queue.Spec{}, func(r *rig) { thousand(r.t, r, seed) })
		})
	}
}

type fate struct {
	Fail int    `json:"fail"` // times, before the end
	End  string `json:"end"`
}

func thousand(t *testing.T, r *rig, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	chance := func(p float64) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64() < p
	}
	pick := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	refused := map[string]int{} // sends to the dead-letter queue; after five a job runs again, as documented
	refuse := func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() < 0.2 && refused[id] < 4 {
			refused[id]++
			return true
		}
		return false
	}
	if seed%2 == 1 {
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			switch {
			case e.Op == memqueue.OpReceive && chance(0.05):
				return memqueue.Fault{Err: queue.ErrThrottled}
			case (e.Op == memqueue.OpDelete || e.Op == memqueue.OpVisibility) && chance(0.1):
				return memqueue.Fault{Err: errEngine, LoseReply: chance(0.5), Delay: time.Duration(pick(50)) * time.Millisecond}
			case e.Op == memqueue.OpSend && e.URL == r.dlq && refuse(e.Message.Attributes[trigger.AttrID]):
				return memqueue.Fault{Err: queue.ErrNotSent}
			}
			return memqueue.Fault{}
		})
	}
	type end struct{ runs, ends int }
	ends := map[trigger.ID]*end{}
	fates := map[trigger.ID]fate{}
	newWorker := func() *worker.Worker {
		w := r.worker(withDLQ(r), func(o *worker.Options) {
			o.Metrics, o.Wait = nil, 2*time.Second
			o.Backoff = func(int) time.Duration { return time.Second }
		})
		worker.Handle(w, "fated", func(ctx context.Context, j worker.Job[fate]) error {
			select {
			case <-time.After(time.Duration(pick(3000)) * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			e := ends[j.ID]
			if e.runs++; e.runs <= j.Payload.Fail {
				switch rng.IntN(3) {
				case 0:
					panic("told to")
				case 1:
					return worker.RetryAfter(time.Duration(rng.IntN(5))*time.Second, nil)
				}
				return errors.New("told to")
			}
			e.ends++
			switch j.Payload.End {
			case "drop":
				return worker.Drop("told to")
			case "dead":
				return worker.DeadLetter("told to")
			}
			return nil
		})
		return w
	}
	dead := map[string]bool{}
	for range 1000 {
		f := fate{Fail: max(rng.IntN(6)-3, 0), End: []string{"done", "drop", "dead"}[rng.IntN(3)]}
		id := r.send("fated", f)
		fates[id], ends[id] = f, &end{}
		if f.End == "dead" {
			dead[id.String()] = true
		}
	}
	stops := []func() error{r.run(newWorker()), r.run(newWorker())}
	for range 6 { // rolling restarts
		r.sleep(time.Duration(10+pick(20)) * time.Second)
		require.NoError(t, stops[0]())
		stops = append(stops[1:], r.run(newWorker()))
	}
	r.sleep(30 * time.Minute)
	for _, stop := range stops {
		require.NoError(t, stop())
	}
	r.empty(r.url)
	for id, f := range fates {
		require.Equal(t, 1, ends[id].ends, "job %s told %+v", id, f)
		require.Equal(t, f.Fail+1, ends[id].runs, "job %s told %+v", id, f)
	}
	buried := map[string]bool{}
	for _, m := range r.eng.Messages(r.dlq) {
		require.False(t, buried[m.Attributes[trigger.AttrID]], "buried twice")
		buried[m.Attributes[trigger.AttrID]] = true
		require.Equal(t, "told to", m.Attributes[worker.AttrReason])
	}
	require.Equal(t, dead, buried)
}
