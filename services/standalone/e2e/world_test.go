package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

const (
	service = "orders"
	// partitions a lane: kumo reads the whole table for each query.
	partitions = 9
	schedulers = 3
	ready      = 45 * time.Second // for a process to say that it is
	grace      = 25 * time.Second // that every process gives itself to stop
)

// engine is an AWS endpoint, and the load it stands on two cores beside the rest.
type engine struct {
	name string
	url  string
	rate int // jobs a second
}

// engines runs a test on each engine.
func onEachEngine(t *testing.T, rates map[string]int, test func(t *testing.T, e engine)) {
	needsE2E(t)
	t.Parallel()
	t.Run("Kumo", func(t *testing.T) {
		t.Parallel()
		url, err := kumoURL()
		require.NoError(t, err)
		test(t, engine{"kumo", url, rates["kumo"]})
	})
	t.Run("Ministack", func(t *testing.T) {
		t.Parallel()
		url := os.Getenv(envMinistack)
		if url == "" {
			t.Skipf("%s names no ministack: make e2e starts one", envMinistack)
		}
		test(t, engine{"ministack", url, rates["ministack"]})
	})
}

// world is one installation on an engine, and the processes that run it.
type world struct {
	t       *testing.T
	engine  engine
	dir     string
	env     []string
	p       *platform.Platform
	buffers platform.Buffers
	jobs    *client.Client
	service registry.Service
	starts  map[string]int // of processes by name
}

func newWorld(t *testing.T, e engine) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &world{t: t, engine: e, dir: t.TempDir(), starts: make(map[string]int)}
	prefix := fmt.Sprintf("e%08x", rand.Uint32())
	var err error
	w.p, err = platform.Open(ctx, platform.Options{Prefix: prefix, Endpoint: e.url})
	require.NoError(t, err)
	w.buffers, err = w.p.Ensure(ctx, partitions)
	require.NoError(t, err)
	w.service, err = w.p.EnsureService(ctx, registry.Service{Name: service}, true)
	require.NoError(t, err)
	table, err := client.NewTable(client.TableOptions{Store: w.p.Store})
	require.NoError(t, err)
	w.jobs, err = client.New(client.Options{
		Sender: w.p.Queues, InboundURL: w.buffers.Inbound[trigger.Standard], UrgentInboundURL: w.buffers.Inbound[trigger.Urgent],
		Services: w.p.Services, Partitions: w.p.Store, Triggers: table,
	})
	require.NoError(t, err)
	w.env = environ(e.url, prefix)
	return w
}

// environ is the environment of a process on an endpoint.
func environ(url, prefix string) []string {
	var env []string
	for _, kv := range embedded.Environ(os.Environ(), "") {
		if !strings.HasPrefix(kv, "MYOSIN_") {
			env = append(env, kv)
		}
	}
	return append(env, "AWS_ENDPOINT_URL="+url, "MYOSIN_PREFIX="+prefix)
}

// name numbers the starts of a process.
func (w *world) name(of string) string {
	w.starts[of]++
	return fmt.Sprintf("%s.%d", of, w.starts[of])
}

// row is what the audit reads of a row.
type row struct {
	key, state string
}

func (r row) id() string {
	_, id, _ := strings.Cut(r.key, "#")
	return id
}

// rows reads the whole trigger table past all of Myosin's code.
func (w *world) rows() ([]row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	name, consistent := w.p.Names.Triggers(), true
	var rows []row
	pages := dynamodb.NewScanPaginator(w.p.Dynamo(), &dynamodb.ScanInput{TableName: &name, ConsistentRead: &consistent})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		for _, item := range page.Items {
			text := func(attr string) string {
				v, _ := item[attr].(*types.AttributeValueMemberS)
				if v == nil {
					return ""
				}
				return v.Value
			}
			if r := (row{key: text("s"), state: text("st")}); strings.Contains(r.key, "#") {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// held returns the ids of the rows that a start of a process has acquired.
func (w *world) held(owner string) map[string]bool {
	w.t.Helper()
	rows, err := w.rows()
	require.NoError(w.t, err)
	ids := make(map[string]bool)
	for _, r := range rows {
		if strings.HasPrefix(r.state, "A."+owner+".") {
			ids[r.id()] = true
		}
	}
	return ids
}

// quiet reports what still moves: rows that wait or are being delivered, and
// messages in the buffers and the service's queues.
func (w *world) quiet() error {
	rows, err := w.rows()
	if err != nil {
		return err
	}
	waiting := make(map[string]int)
	for _, r := range rows {
		if kind, _, _ := strings.Cut(r.state, "."); kind != "C" && kind != "C!" && kind != "D" {
			waiting[kind]++
		}
	}
	var errs []error
	if len(waiting) > 0 {
		errs = append(errs, fmt.Errorf("rows by state: %v", waiting))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, url := range []string{
		w.buffers.Inbound[trigger.Standard], w.buffers.Inbound[trigger.Urgent], w.service.QueueURL, w.service.UrgentQueueURL,
	} {
		d, err := w.p.Queues.Depth(ctx, url)
		if err != nil {
			errs = append(errs, err)
		} else if n := d.Visible + d.InFlight + d.Delayed; n > 0 {
			errs = append(errs, fmt.Errorf("%d messages on %s", n, url[strings.LastIndexByte(url, '/')+1:]))
		}
	}
	return errors.Join(errs...)
}

// refused counts what lies in the dead-letter queues and dead rows: nothing may.
func (w *world) refused() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, url := range []string{w.buffers.DLQ, w.service.DLQURL} {
		d, err := w.p.Queues.Depth(ctx, url)
		if err != nil {
			errs = append(errs, err)
		} else if n := d.Visible + d.InFlight + d.Delayed; n > 0 {
			errs = append(errs, fmt.Errorf("%d dead letters on %s", n, url[strings.LastIndexByte(url, '/')+1:]))
		}
	}
	rows, err := w.rows()
	for _, r := range rows {
		if r.state == "D" {
			errs = append(errs, fmt.Errorf("dead row %s", r.key))
		}
	}
	return errors.Join(append(errs, err)...)
}
