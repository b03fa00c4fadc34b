// Package owner owns the owning service of a run: a process that consumes the
// service's queues by package worker and writes down what it handled, on disk
// before the message is deleted.
//
// [Run] is the process; [Read] reads its records, whatever killed it.
package owner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// Handled is one message as the handler saw it.
type Handled struct {
	ID      string
	Message string // the queue's id of it
	Service string
	Due     time.Time
	Sent    time.Time // when the queue took it, by its own word
	At      time.Time // when the handler began
	Urgent  bool
	Attempt int
	Payload string
	By      string `json:"-"` // set by who reads it
}

// grace is for a stop; polls are short.
const (
	wait  = 2 * time.Second
	grace = 15 * time.Second
)

// Run consumes the queues of services until ctx ends. Records go to out.
func Run(ctx context.Context, prefix string, services []string, out *os.File) error {
	log, err := telemetry.NewLogger(telemetry.LogOptions{Format: "json", Level: "info", Process: "worker"})
	if err != nil {
		return err
	}
	p, err := platform.Open(ctx, platform.Options{Prefix: prefix, Log: log})
	if err != nil {
		return err
	}
	if err := p.WaitReach(ctx, log); err != nil {
		return nil //nolint:nilerr // stopped before it began.
	}
	rec := &recorder{out: out}
	var workers []*worker.Worker
	for _, name := range services {
		svc, err := p.Services.Lookup(ctx, name)
		for ; err != nil && ctx.Err() == nil; svc, err = p.Services.Lookup(ctx, name) {
			log.WarnContext(ctx, "the registry cannot be read yet", telemetry.KeyError, err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		seen := &messages{Receiver: p.Queues, of: make(map[string][]queue.Received)}
		w, err := worker.New(worker.Options{
			Receiver: seen, QueueURL: svc.QueueURL, UrgentQueueURL: svc.UrgentQueueURL, Concurrency: 10, Wait: wait, Grace: grace, Log: log,
		})
		if err != nil {
			return err
		}
		w.HandleDefault(func(_ context.Context, job worker.Job[[]byte]) error {
			h := Handled{
				ID: job.ID.String(), Service: name, Due: job.Due, At: time.Now(), Urgent: job.Urgent, Attempt: job.Attempt, Payload: string(job.Payload),
			}
			h.Message, h.Sent = seen.take(h.ID, h.Attempt)
			return rec.write(&h)
		})
		workers = append(workers, w)
	}
	// One component: those of a list stop one after the other, and each takes its grace.
	return lifecycle.Run(ctx, grace+5*time.Second, log, lifecycle.Component{Name: "workers", Run: func(ctx context.Context) error {
		all, ctx := errgroup.WithContext(ctx)
		for _, w := range workers {
			all.Go(func() error { return w.Run(ctx) })
		}
		return all.Wait()
	}})
}

type recorder struct {
	mu  sync.Mutex
	out *os.File
}

func (r *recorder) write(h *Handled) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(append(line, '\n')); err != nil {
		return err
	}
	return r.out.Sync()
}

// messages remembers what was received of each trigger, which a handler is not
// told.
type messages struct {
	worker.Receiver
	mu sync.Mutex
	of map[string][]queue.Received
}

// Receive implements worker.Receiver.
func (s *messages) Receive(ctx context.Context, url string, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := s.Receiver.Receive(ctx, url, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range got {
		id := got[i].Attributes[trigger.AttrID]
		s.of[id] = append(s.of[id], got[i])
	}
	return got, err
}

// take returns the message of a trigger that was received so often, each once.
func (s *messages) take(id string, attempt int) (message string, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.of[id] {
		if m.ReceiveCount == attempt {
			s.of[id] = append(s.of[id][:i:i], s.of[id][i+1:]...)
			if len(s.of[id]) == 0 {
				delete(s.of, id)
			}
			return m.ID, m.SentAt
		}
	}
	return "", time.Time{}
}

// Read reads what the process starts have recorded so far: files by name.
func Read(files map[string]string) ([]Handled, error) {
	var all []Handled
	var errs []error
	for name, path := range files {
		got, err := read(name, path)
		all = append(all, got...)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func read(name, path string) (all []Handled, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // it was read
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // a line without its end was cut by a kill, and not handled
		}
		if err != nil {
			return all, fmt.Errorf("records of %s: %w", name, err)
		}
		h := Handled{By: name}
		if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &h); err != nil {
			return all, fmt.Errorf("records of %s: %q: %w", name, line, err)
		}
		all = append(all, h)
	}
}
