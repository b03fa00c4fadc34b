package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/owner"
)

// watch prints how it goes, now and then.
func (w *world) watch(ctx context.Context) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			handled, err := w.handled()
			w.mu.Lock()
			submitted := w.submitted
			w.mu.Unlock()
			w.say.line("        %d submitted, %d messages handled%s", submitted, len(handled), suffix(err))
		case <-ctx.Done():
			return
		}
	}
}

func suffix(err error) string {
	if err == nil {
		return ""
	}
	return ", " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// handled reads the records of every worker.
func (w *world) handled() ([]owner.Handled, error) {
	files := make(map[string]string)
	w.mu.Lock()
	for name, st := range w.starts {
		if st.slot.role == "worker" {
			files[name] = st.proc.Out
		}
	}
	w.mu.Unlock()
	return owner.Read(files)
}

// drain waits until everything has arrived and nothing moves any more; nil, or
// what still does.
func (w *world) drain(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	for n := 0; ; n++ {
		if err = errors.Join(w.missing(), w.quiet(ctx), w.managedWaits(ctx)); err == nil {
			w.say.line("everything has arrived, and nothing moves")
			return nil
		}
		if n%10 == 5 {
			w.say.line("        waiting: %s", suffix(err)[2:])
		}
		if !until(ctx, time.Now().Add(time.Second)) {
			w.say.line("it does not end: %s", suffix(err)[2:])
			return fmt.Errorf("%s after the faults: %w", drainFor, err)
		}
	}
}

func (w *world) missing() error {
	all, err := w.handled()
	if err != nil {
		return err
	}
	got := make(map[string]bool, len(all))
	for _, h := range all {
		got[h.ID] = true
	}
	w.mu.Lock()
	deleted := w.facts.Deleted
	w.mu.Unlock()
	excused := func(id string) bool { return audit.Excused(audit.Sends(w.journal.Of(id)), deleted) }
	n, id := w.ledger.Missing(func(id string) bool { return got[id] }, excused)
	if n > 0 {
		return fmt.Errorf("%d have not arrived, such as %s", n, id)
	}
	return nil
}

// row is what the audit reads of a row.
type row struct {
	key, state string
	body       []byte
}

// waits reports whether a row is to be delivered, or being so, and its kind.
func (r *row) waits() (kind string, yes bool) {
	kind, _, _ = strings.Cut(r.state, ".")
	return kind, kind != "C" && kind != "C!" && kind != "D"
}

// rows reads the whole trigger table past all of Myosin's code.
func (w *world) rows(ctx context.Context) (rows []row, err error) {
	name, consistent := w.p.Names.Triggers(), true
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
			body, _ := item["b"].(*types.AttributeValueMemberB)
			if body == nil {
				body = &types.AttributeValueMemberB{}
			}
			if r := (row{key: text("s"), state: text("st"), body: body.Value}); strings.Contains(r.key, "#") {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// quiet reports what still moves: rows that wait or are being delivered, and
// messages in the buffers and the services' queues.
func (w *world) quiet(ctx context.Context) error {
	rows, err := w.rows(ctx)
	if err != nil {
		return err
	}
	waiting := make(map[string]int)
	for _, r := range rows {
		if kind, waits := r.waits(); waits {
			waiting[kind]++
		}
	}
	var errs []error
	if len(waiting) > 0 {
		errs = append(errs, fmt.Errorf("rows by state: %v", waiting))
	}
	urls := w.buffers.Inbound[:]
	for _, svc := range w.services {
		urls = append(urls, svc.QueueURL)
		if svc.UrgentQueueURL != "" { // each service of runs has one queue
			urls = append(urls, svc.UrgentQueueURL)
		}
	}
	return errors.Join(append(errs, w.empty(ctx, urls))...)
}

func (w *world) empty(ctx context.Context, urls []string) error {
	var errs []error
	for _, url := range urls {
		d, err := w.p.Queues.Depth(ctx, url)
		if err != nil {
			errs = append(errs, err)
		} else if n := d.Visible + d.InFlight + d.Delayed; n > 0 {
			errs = append(errs, fmt.Errorf("%d messages on %s", n, journal.QueueName(url)))
		}
	}
	return errors.Join(errs...)
}

// verdict is the account, with what the engine holds in the end.
func (w *world) verdict(ctx context.Context, drained error) (*audit.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if drained != nil {
		w.ledger.Breach(drained.Error())
	}
	if err := w.quiet(ctx); err != nil {
		w.ledger.Breach("left when all processes had stopped: " + err.Error())
	}
	letters := []string{w.buffers.DLQ}
	for _, svc := range w.services {
		letters = append(letters, svc.DLQURL)
	}
	if err := w.empty(ctx, letters); err != nil {
		w.ledger.Breach("dead letters: " + err.Error())
	}
	rows, err := w.rows(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.state == "D" {
			_, id, _ := strings.Cut(r.key, "#")
			w.ledger.Breach("a dead row: " + r.key + "\n" + w.journal.Text(id, w.start))
		}
	}
	handled, err := w.handled()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts.Start = w.start
	w.facts.ClockOff = w.clockOff
	return audit.Verdict(w.ledger, w.journal, handled, w.facts), nil
}

// clockOff reports whether the clock of a process start may have been wrong by
// as much as goes uncorrected. One that is far off is corrected, towards late.
func (w *world) clockOff(by string, at time.Time) bool {
	st := w.starts[by]
	if st == nil {
		return false
	}
	small := st.offset != 0 && st.offset.Abs() <= audit.Tolerance
	return small || st.slot.faults.DateWasOff(at) || w.remote()
}
