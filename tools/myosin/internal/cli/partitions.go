package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

// minNotice is how far ahead a growth must be announced: every process has read
// it by then.
const minNotice = time.Minute

type epochJSON struct {
	N    int       `json:"n"`
	From time.Time `json:"from,omitzero"` // from the start, where it is missing
}

type partitionsJSON struct {
	Current int         `json:"current"` // used by writers now
	Scanned int         `json:"scanned"` // read by schedulers
	Epochs  []epochJSON `json:"epochs"`
	Changed *bool       `json:"changed,omitempty"` // grow only
}

func partitionsOf(e trigger.Epochs, now time.Time) partitionsJSON {
	v := partitionsJSON{Current: e.At(now), Scanned: e.Max(), Epochs: make([]epochJSON, len(e))}
	for i, ep := range e {
		v.Epochs[i] = epochJSON{N: ep.N, From: ep.From}
	}
	return v
}

func (a *app) partitionsCommand() *cobra.Command {
	return a.group("partitions", "how many partitions a lane has", a.partitionsShowCommand(), a.partitionsGrowCommand())
}

func (a *app) partitionsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "show the partition counts and since when they hold", Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			epochs, err := a.epochs(ctx)
			if err != nil {
				return err
			}
			return a.printEpochs(epochs, nil)
		}),
	}
}

func (a *app) epochs(ctx context.Context) (trigger.Epochs, error) {
	p, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return p.Store.Epochs(ctx)
}

func (a *app) printEpochs(epochs trigger.Epochs, changed *bool) error {
	now := a.platform.Clock.Now()
	v := partitionsOf(epochs, now)
	v.Changed = changed
	rows := make([][]string, len(epochs))
	for i, e := range epochs {
		from, state := "the start", "past"
		if !e.From.IsZero() {
			from = stamp(e.From)
		}
		switch {
		case e.From.After(now):
			state = "starts " + when.Until(e.From, now)
		case e.N == v.Current:
			state = "current"
		}
		rows[i] = []string{strconv.Itoa(e.N), from, state}
	}
	return a.out.table(v, "", "PARTITIONS FROM STATE", rows)
}

func (a *app) partitionsGrowCommand() *cobra.Command {
	var (
		in  time.Duration
		yes bool
	)
	cmd := &cobra.Command{
		Use: "grow N", Short: "give each lane more partitions",
		Long: `Announce a larger partition count. Schedulers read all of the new partitions from
the moment they learn of it; writers use them once the announced time has come,
at least a minute ahead, so that everybody has learnt of it by then. Rows stay
where they are. More partitions let more schedulers share the work, and cost a
query each per tick; there is no way back to fewer.`,
		Args: exactly("N"),
	}
	durationVar(cmd.Flags(), &in, "in", 2*time.Minute, "how far ahead writers change over; at least 1m")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.run(func(ctx context.Context, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return usage("%q is not a number of partitions", args[0])
		}
		if in < minNotice {
			return usage("--in %s: want %s or more, so that every process learns of it before writers change over", in, minNotice)
		}
		return a.grow(ctx, n, in, yes)
	})
	return cmd
}

func (a *app) grow(ctx context.Context, n int, in time.Duration, yes bool) error {
	old, err := a.epochs(ctx)
	if err != nil {
		return err
	}
	changed := false
	switch {
	case n == old.Max():
		a.out.note("there are %d partitions already", n)
		return a.printEpochs(old, &changed)
	case n < old.Max():
		return fail(ExitRefused, "partitions only grow: there are %d, and rows in those above %d would never be read", old.Max(), n)
	case n > trigger.MaxPartitions:
		return fail(ExitRefused, "%d partitions: at most %d", n, trigger.MaxPartitions)
	}
	now := a.platform.Clock.Now()
	if last := old[len(old)-1]; !now.Add(in).After(last.From) {
		return fail(ExitConflict, "%d partitions are announced for %s (%s): a larger count must come after that, so give a longer --in",
			last.N, stamp(last.From), when.Until(last.From, now))
	}
	question := "grow from " + strconv.Itoa(old.Max()) + " to " + strconv.Itoa(n) + " partitions a lane, for good?"
	if err := a.confirm(yes, question); err != nil {
		return err
	}
	// The answer may have taken its time: the notice counts from now.
	from := a.platform.Clock.Now().Add(in).Truncate(time.Millisecond).UTC()
	next := append(append(trigger.Epochs{}, old...), trigger.Epoch{N: n, From: from})
	if err := a.platform.Store.SetEpochs(ctx, old, next); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return fail(ExitConflict, "somebody else changed the partitions meanwhile; see myosin partitions show")
		}
		return err
	}
	changed = true
	return a.printEpochs(next, &changed)
}
