package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// dlqHold is how long what was read stays hidden from others if this process
	// dies; else it is given back at once.
	dlqHold = 2 * time.Minute
	dlqWait = time.Second
)

// reasonUnread is the reason of messages that SQS moved by itself.
const reasonUnread = "received_too_often"

// refusal is one message of the inbound dead-letter queue.
type refusal struct {
	msg    queue.Received
	letter inbound.DeadLetter
}

func refusalOf(m queue.Received) refusal {
	letter, err := inbound.ParseDeadLetter(m.Body)
	if err != nil {
		// As it was sent. Its lane stands in it, if anywhere.
		letter = inbound.DeadLetter{Reason: reasonUnread, Sent: m.SentAt, Sender: m.SenderID, Body: m.Body}
		var fields struct {
			Lane trigger.Lane `json:"lane"`
		}
		if json.Unmarshal([]byte(m.Body), &fields) == nil {
			letter.Lane = fields.Lane
		}
	}
	return refusal{msg: m, letter: letter}
}

// refusalJSON is a refusal as JSON shows it. It has nothing of the payload.
type refusalJSON struct {
	MessageID string                    `json:"message_id"`
	Reason    string                    `json:"reason"`
	Errors    []inbound.DeadLetterFault `json:"errors"`
	Service   string                    `json:"service,omitempty"`
	ID        string                    `json:"id,omitempty"`
	Lane      trigger.Lane              `json:"lane"`
	Sender    string                    `json:"sender,omitempty"`
	Sent      time.Time                 `json:"sent"`
	Bytes     int                       `json:"bytes"`
	Truncated bool                      `json:"truncated"`
}

func (r *refusal) json() refusalJSON {
	original, err := r.letter.Original()
	v := refusalJSON{
		MessageID: r.msg.ID, Reason: r.letter.Reason, Errors: r.letter.Errors, Lane: r.letter.Lane,
		Sender: r.letter.Sender, Sent: r.letter.Sent, Bytes: len(original), Truncated: errors.Is(err, inbound.ErrTruncated),
	}
	if v.Errors == nil {
		v.Errors = []inbound.DeadLetterFault{}
	}
	var fields struct {
		Service any `json:"service"`
		ID      any `json:"id"`
	}
	if json.Unmarshal([]byte(original), &fields) == nil {
		v.Service, _ = fields.Service.(string)
		v.ID, _ = fields.ID.(string)
	}
	return v
}

// readDLQ receives up to limit messages (0: all) and hands each batch to fn; what
// fn does not return is hidden until the end, then given back. It ends when a poll
// brings nothing.
func (a *app) readDLQ(ctx context.Context, url string, limit int, fn func(batch []refusal) (keep []refusal, err error)) (err error) {
	var held []queue.Visibility
	defer func() {
		// Also after an interrupt: others should not wait for what was only looked at.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if back := errors.Join(a.platform.Queues.ChangeVisibility(ctx, url, held)...); back != nil && err == nil {
			a.out.note("myosin: some messages stay hidden for up to %s: %v", dlqHold, back)
		}
	}()
	seen := make(map[string]bool)
	for limit == 0 || len(seen) < limit {
		most := queue.MaxBatch
		if limit > 0 {
			most = min(most, limit-len(seen))
		}
		got, err := a.platform.Queues.Receive(ctx, url, queue.ReceiveOptions{Max: most, Wait: dlqWait, Visibility: dlqHold})
		if err != nil {
			return err
		}
		a.progressed()
		if len(got) == 0 {
			return nil
		}
		var batch []refusal
		for _, m := range got {
			if seen[m.ID] { // it came round again: everything was seen
				held = append(held, queue.Visibility{Receipt: m.Receipt})
				return nil
			}
			seen[m.ID] = true
			batch = append(batch, refusalOf(m))
		}
		keep, err := fn(batch)
		for _, r := range keep {
			held = append(held, queue.Visibility{Receipt: r.msg.Receipt})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) dlqListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "list refused submissions, and why",
		Long: `List what lies in the inbound dead-letter queue. A queue can only be read by
receiving: what is listed is hidden from others for a moment, then given back.
Nothing of the payloads is shown.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "most messages to list")
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error {
		if err := atLeast("limit", limit, 1); err != nil {
			return err
		}
		buffers, err := a.buffers(ctx)
		if err != nil {
			return err
		}
		list := []refusalJSON{}
		err = a.readDLQ(ctx, buffers.DLQ, limit, func(batch []refusal) ([]refusal, error) {
			for i := range batch {
				list = append(list, batch[i].json())
			}
			return batch, nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(list, func(x, y refusalJSON) int { return x.Sent.Compare(y.Sent) })
		rows := make([][]string, len(list))
		for i, r := range list {
			why := make([]string, len(r.Errors))
			for k, e := range r.Errors {
				why[k] = e.Field + ": " + e.Msg
			}
			rows[i] = []string{stamp(r.Sent), r.Reason, orDash(visible(r.Service)), r.MessageID, visible(strings.Join(why, "; "))}
		}
		return a.out.table(list, "no refused submissions", "SENT REASON SERVICE MESSAGE WHY", rows)
	})
	return cmd
}

func (a *app) dlqRedriveCommand() *cobra.Command {
	var all, yes bool
	cmd := &cobra.Command{
		Use: "redrive (MESSAGE… | --all)", Short: "submit refused submissions again",
		Long: `Put refused submissions back into the buffer they came from, by the message ids
that list shows. Due times stay what they were: delays count from the first
submission. What is refused again comes back to this queue; it is not tried
twice by one redrive.`,
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("give message ids, or --all")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every refused submission")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.run(func(ctx context.Context, args []string) error {
		buffers, err := a.buffers(ctx)
		if err != nil {
			return err
		}
		depth, err := a.depth(ctx, buffers.DLQ)
		if err != nil {
			return err
		}
		n := len(args)
		if all && depth != nil {
			n = depth.Visible
		}
		question := fmt.Sprintf("submit %d refused submissions again?", n)
		if all {
			question = fmt.Sprintf("submit all refused submissions (about %d) again?", n)
		}
		if err := a.confirm(yes, question); err != nil {
			return err
		}
		r := resubmission{app: a, dlq: buffers.DLQ, inbound: buffers.Inbound[:], before: a.platform.Clock.Now(), bar: a.progress("read", n)}
		if !all {
			r.want = make(map[string]bool, n)
			for _, id := range args {
				r.want[id] = true
			}
		}
		err = r.run(ctx)
		r.bar.end()
		return err
	})
	return cmd
}

// resubmission moves messages from the dead-letter queue to the buffers.
type resubmission struct {
	app     *app
	dlq     string
	inbound []string        // by lane
	want    map[string]bool // message ids still to be found; nil: all
	before  time.Time       // later ones were refused again meanwhile
	bar     *progress

	done, failed int
}

type resubmitted struct {
	MessageID string `json:"message_id"`
	Redriven  bool   `json:"redriven"`
	Error     string `json:"error,omitempty"`
}

func (r *resubmission) run(ctx context.Context) error {
	stop := errors.New("all were found")
	err := r.app.readDLQ(ctx, r.dlq, 0, func(batch []refusal) ([]refusal, error) {
		keep, err := r.batch(ctx, batch)
		if err == nil && r.want != nil && len(r.want) == 0 {
			err = stop
		}
		return keep, err
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	switch {
	case r.failed > 0:
		return fail(ExitFailed, "%d submitted again, %d were not and stay in the dead-letter queue", r.done, r.failed)
	case len(r.want) > 0:
		missing := make([]string, 0, len(r.want))
		for id := range r.want {
			missing = append(missing, id)
		}
		slices.Sort(missing)
		return fail(ExitNotFound, "not in the dead-letter queue, or hidden for a moment because somebody else reads it: %s", strings.Join(missing, " "))
	}
	r.app.out.note("%d submitted again", r.done)
	return nil
}

// batch submits what is wanted of one batch, and returns what stays.
func (r *resubmission) batch(ctx context.Context, batch []refusal) (keep []refusal, err error) {
	type pending struct {
		refusal
		message queue.Message
	}
	lanes := make(map[trigger.Lane][]pending)
	for _, one := range batch {
		r.bar.step()
		switch {
		case r.want != nil && !r.want[one.msg.ID], one.msg.SentAt.After(r.before):
			keep = append(keep, one)
			continue
		}
		delete(r.want, one.msg.ID)
		m, err := one.letter.Redrive()
		if err != nil {
			keep = append(keep, one)
			if err := r.tell(one, err); err != nil {
				return append(keep, batch...), err
			}
			continue
		}
		lanes[one.letter.Lane] = append(lanes[one.letter.Lane], pending{one, m})
	}
	for lane, list := range lanes {
		msgs := make([]queue.Message, len(list))
		for i := range list {
			msgs[i] = list[i].message
		}
		// First sent, then deleted: a double is stored once, since rows are unique by id.
		sent := r.app.platform.Queues.SendBatch(ctx, r.inbound[lane], msgs)
		var receipts []string
		for i, err := range sent {
			if err != nil {
				keep = append(keep, list[i].refusal)
			} else {
				receipts = append(receipts, list[i].msg.Receipt)
			}
			if err := r.tell(list[i].refusal, err); err != nil {
				return keep, err
			}
		}
		if err := errors.Join(r.app.platform.Queues.Delete(ctx, r.dlq, receipts)...); err != nil {
			return keep, fmt.Errorf("submitted, but still in the dead-letter queue too: %w", err)
		}
	}
	return keep, nil
}

// tell prints the outcome of one message.
func (r *resubmission) tell(one refusal, err error) error {
	v := resubmitted{MessageID: one.msg.ID, Redriven: err == nil}
	text := "submitted again"
	if err != nil {
		v.Error = r.app.readable(err).Error()
		text = "failed: " + v.Error
		r.failed++
	} else {
		r.done++
	}
	r.bar.end()
	return r.app.out.object(v, "%s %s", one.msg.ID, text)
}
