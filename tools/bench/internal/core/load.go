package core

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// submitters bounds the submissions under way; beyond it the load falls behind
	// its rate, which the report shows.
	submitters = 64
	shortEach  = 5 // with Short
	// A wave is submitted before it falls due: in batches, and surely this fast.
	waveBatch   = 10
	waveStoring = 300 // jobs a second
)

// submission is what the client tells of one: a line of JSON.
type submission struct {
	Began int64 `json:"b"` // Unix nanoseconds
	Took  int64 `json:"t"` // nanoseconds
	Jobs  []job `json:"j"`
}

type job struct {
	ID    string `json:"i,omitempty"`
	Due   int64  `json:"d,omitempty"` // Unix milliseconds
	Lane  string `json:"l"`
	Error string `json:"e,omitempty"` // also of unknown outcome
}

// load is the client of a run, in a process of its own.
type load struct {
	o      Options
	client *client.Client
	tell   func(submission)
	wave   time.Time // the first due time of a wave
}

// submit submits at the rate. Submissions start at their times whether or not
// those before have been answered.
func (l *load) submit(ctx context.Context) {
	began, o := time.Now(), &l.o
	batch, rate := o.Batch, o.Rate
	if o.wave() {
		l.wave = began.Add(o.Lead.Max + time.Duration(o.Jobs)*time.Second/waveStoring)
		batch, rate = max(batch, waveBatch), 1e9
	}
	slots := make(chan struct{}, submitters)
	var under sync.WaitGroup
	for next := 0; next < o.Jobs && ctx.Err() == nil; {
		at := began.Add(time.Duration(float64(next) / rate * float64(time.Second)))
		if wait := time.Until(at); wait > 0 && pause(ctx, wait) != nil {
			break
		}
		n, first := min(batch, o.Jobs-next), next
		next += n
		slots <- struct{}{}
		under.Go(func() {
			l.submission(ctx, first, n)
			<-slots
		})
	}
	under.Wait()
}

// submission submits jobs number first to first+n-1.
func (l *load) submission(ctx context.Context, first, n int) {
	began := time.Now()
	reqs := make([]client.Request, n)
	told := submission{Began: began.UnixNano(), Jobs: make([]job, n)}
	for i := range reqs {
		lane := trigger.Standard
		if rand.Float64() < l.o.Urgent { //nolint:gosec // a load, not a secret.
			lane = trigger.Urgent
		}
		told.Jobs[i].Lane = lane.String()
		reqs[i] = client.Request{
			Service: serviceName((first + i) % l.o.Services), Payload: payload(l.o.Payload),
			Options: []client.Option{client.At(l.due(first+i, began)), client.Lane(lane)},
		}
	}
	results := l.client.ScheduleBatch(ctx, reqs)
	told.Took = int64(time.Since(began))
	for i, r := range results {
		if j := &told.Jobs[i]; r.Err != nil {
			j.Error = r.Err.Error()
		} else {
			j.ID, j.Due = r.ID.String(), r.Due.UnixMilli()
		}
	}
	l.tell(told)
}

// due is when a job is due that is submitted at a time.
func (l *load) due(number int, began time.Time) time.Time {
	if !l.wave.IsZero() {
		return l.wave.Add(time.Duration(number) * time.Second / time.Duration(l.o.Jobs))
	}
	s := l.o.Lead
	if l.o.Short && number%shortEach == 0 {
		s = Span{0, l.o.needs()}
	}
	return began.Add(s.Min + rand.N(s.Max-s.Min+1)) //nolint:gosec // a load, not a secret.
}

// payload is text that compresses about as little as small JSON does.
func payload(n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	p := make([]byte, n)
	for i := range p {
		p[i] = letters[rand.IntN(len(letters))] //nolint:gosec // a load, not a secret.
	}
	return p
}

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// line is one of the plain structs that are told, as a line for the parent.
func line[T submission | receipt](told T) string {
	text, _ := json.Marshal(told) //nolint:errchkjson // strings and numbers.
	return string(text)
}
