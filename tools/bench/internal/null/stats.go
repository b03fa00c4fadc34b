package null

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/mq"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/table"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// calls counts requests by operation.
type calls struct {
	by sync.Map // target to *call
}

type call struct{ n, failed, in, out, ns atomic.Int64 }

func (c *calls) add(target string, in, out int, took time.Duration, failed *wire.Error) {
	v, ok := c.by.Load(target)
	if !ok {
		v, _ = c.by.LoadOrStore(strings.Clone(target), new(call))
	}
	one, _ := v.(*call)
	one.n.Add(1)
	one.in.Add(int64(in))
	one.out.Add(int64(out))
	one.ns.Add(int64(took))
	if failed != nil {
		one.failed.Add(1)
	}
}

// Calls tell of one operation.
type Calls struct {
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// AnswerUs is the time spent answering, without latency that was asked for;
	// the wait of a long poll counts.
	AnswerUs float64 `json:"answer_us"`
}

// Stats are what was done since the start or the last reset.
type Stats struct {
	// Requests in all, and by "DynamoDB.Query" and the like.
	Requests   int64            `json:"requests"`
	Operations map[string]Calls `json:"operations"`
	DynamoDB   table.Stats      `json:"dynamodb"`
	SQS        mq.Stats         `json:"sqs"`
	// CPUMs is the processor time of the process since it began, not since the
	// reset; 0 where the system does not tell.
	CPUMs     float64 `json:"cpu_ms"`
	UptimeSec float64 `json:"uptime_s"`
}

// Stats returns what was done.
func (e *Endpoint) Stats() Stats {
	s := Stats{Operations: make(map[string]Calls), DynamoDB: e.Tables.Stats(), SQS: e.Queues.Stats()}
	e.calls.by.Range(func(k, v any) bool {
		one, _ := v.(*call)
		c := Calls{one.n.Load(), one.failed.Load(), one.in.Load(), one.out.Load(), float64(one.ns.Load()) / 1000}
		target, _ := k.(string)
		target = strings.Replace(strings.Replace(target, targetDynamoDB, "DynamoDB.", 1), targetSQS, "SQS.", 1)
		s.Operations[target] = c
		s.Requests += c.Requests
		return true
	})
	if used, ok := host.CPU(); ok {
		s.CPUMs = float64(used.Microseconds()) / 1000
	}
	s.UptimeSec = time.Since(e.began).Seconds()
	return s
}

// ResetStats sets counts to zero and sinks to empty.
func (e *Endpoint) ResetStats() {
	e.calls.by.Clear()
	e.Tables.ResetStats()
	e.Queues.ResetStats()
}

// Reset drops every table, queue and count.
func (e *Endpoint) Reset() {
	e.calls.by.Clear()
	e.Tables.Reset()
	e.Queues.Reset()
}

// Own answers a request to the endpoint's own interface, by method and URI; see
// the package's comment.
func (e *Endpoint) Own(method, uri string) (status int, answer []byte) {
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return http.StatusBadRequest, []byte(err.Error())
	}
	var out any = struct{}{}
	switch {
	case u.Path == "/_stats":
		out = e.Stats()
	case u.Path == "/_health":
	case method != http.MethodPost:
		return http.StatusNotFound, []byte("GET /_stats, POST /_reset, POST /_fill")
	case u.Path == "/_reset":
		if u.Query().Get("keep") == "data" {
			e.ResetStats()
		} else {
			e.Reset()
		}
	case u.Path == "/_fill":
		began := time.Now()
		name, f, err := fillOf(u.Query())
		if err == nil {
			err = e.Tables.Fill(name, f)
		}
		if err != nil {
			return http.StatusBadRequest, []byte(err.Error())
		}
		out = map[string]any{"rows": f.Rows, "took_ms": time.Since(began).Milliseconds()}
	default:
		return http.StatusNotFound, []byte("GET /_stats, POST /_reset, POST /_fill")
	}
	answer, err = json.Marshal(out)
	if err != nil { // cannot happen
		return http.StatusInternalServerError, []byte(err.Error())
	}
	return http.StatusOK, append(answer, '\n')
}

// fillOf reads the query of /_fill.
func fillOf(q url.Values) (name string, f table.Filler, err error) {
	number := func(key string) int {
		text := q.Get(key)
		if text == "" {
			return 0
		}
		n, bad := strconv.Atoi(text)
		if bad != nil && err == nil {
			err = fmt.Errorf("%s: %w", key, bad)
		}
		return n
	}
	at := func(key string) time.Time {
		text := q.Get(key)
		if text == "" {
			return time.Time{}
		}
		t, bad := time.Parse(time.RFC3339, text)
		if bad != nil && err == nil {
			err = fmt.Errorf("%s: %w", key, bad)
		}
		return t
	}
	f = table.Filler{
		Rows: number("rows"), Partitions: number("partitions"), Services: number("services"), Payload: number("payload"),
		From: at("from"), To: at("to"), Seed: uint64(number("seed")), //nolint:gosec // any will do.
	}
	lane, bad := trigger.ParseLane(q.Get("lane"))
	if bad != nil && err == nil {
		err = fmt.Errorf("lane: %w", bad)
	}
	f.Lane = lane
	return q.Get("table"), f, err
}
