package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// delivery is one message as the owning service's worker saw it.
type delivery struct {
	ID      string
	Due     time.Time
	Sent    time.Time // when the engine took the message, by its own word
	At      time.Time // when the handler began
	Lane    string
	Attempt int
	Name    string
	Payload string
}

// record is the owning service: this program, started as a process of its own,
// consumes the service's queues by package worker until it is told to stop. A
// message is done once its line is on disk.
func record(out *os.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p, err := platform.Open(ctx, platform.Options{Prefix: os.Getenv("MYOSIN_PREFIX")})
	if err != nil {
		return err
	}
	svc, err := p.Source.Get(ctx, service)
	if err != nil {
		return err
	}
	seen := &sentTimes{Receiver: p.Queues, sent: make(map[string]time.Time)}
	w, err := worker.New(worker.Options{
		Receiver: seen, QueueURL: svc.QueueURL, UrgentQueueURL: svc.UrgentQueueURL,
		Concurrency: 10, Wait: 2 * time.Second, Grace: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	w.HandleDefault(func(_ context.Context, job worker.Job[[]byte]) error {
		d := delivery{
			ID: job.ID.String(), Due: job.Due, At: time.Now(), Attempt: job.Attempt, Name: job.Name, Payload: string(job.Payload),
			Lane: trigger.Standard.String(),
		}
		if job.Urgent {
			d.Lane = trigger.Urgent.String()
		}
		d.Sent = seen.of(job.ID.String())
		line, err := json.Marshal(d)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
		return out.Sync()
	})
	return w.Run(ctx)
}

// sentTimes remembers when each message was sent, which a handler is not told.
type sentTimes struct {
	worker.Receiver
	mu   sync.Mutex
	sent map[string]time.Time // the latest, by trigger
}

func (s *sentTimes) Receive(ctx context.Context, url string, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := s.Receiver.Receive(ctx, url, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range got {
		s.sent[got[i].Attributes[trigger.AttrID]] = got[i].SentAt
	}
	return got, err
}

func (s *sentTimes) of(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

// deliveries reads what a worker has recorded so far.
func deliveries(path string) (map[string][]delivery, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := make(map[string][]delivery)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return all, nil // a line without its end is being written
		}
		if err != nil {
			return nil, err
		}
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		all[d.ID] = append(all[d.ID], d)
	}
}
