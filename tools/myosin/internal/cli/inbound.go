package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func (a *app) inboundCommand() *cobra.Command {
	return a.group("inbound", "the buffer of submissions, and those that were refused",
		a.inboundShowCommand(),
		a.inboundPauseCommand("pause", true, `Stop the draining of the inbound buffers, by every process, within a few seconds
of their next look at the registry (15 s). Nothing is lost: submissions go on
being accepted and wait in the buffers, up to 14 days. Jobs that fall due
meanwhile are late. Stored triggers are delivered as ever.`),
		a.inboundPauseCommand("resume", false, "Drain the inbound buffers again."),
		a.group("dlq", "submissions that were refused", a.dlqListCommand(), a.dlqRedriveCommand()))
}

type inboundJSON struct {
	Paused   bool       `json:"paused"`
	Standard *depthJSON `json:"standard,omitempty"`
	Urgent   *depthJSON `json:"urgent,omitempty"`
	DLQ      *depthJSON `json:"dlq,omitempty"`
}

func (a *app) inboundShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "show whether the drain is paused, and how much waits", Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			buffers, err := a.buffers(ctx)
			if err != nil {
				return err
			}
			var v inboundJSON
			if v.Paused, err = a.drainPaused(ctx); err != nil {
				return err
			}
			for url, to := range map[string]**depthJSON{
				buffers.Inbound[trigger.Standard]: &v.Standard, buffers.Inbound[trigger.Urgent]: &v.Urgent, buffers.DLQ: &v.DLQ,
			} {
				if *to, err = a.depth(ctx, url); err != nil {
					return err
				}
			}
			return a.out.fields(v, [2]string{"drain", stateText(v.Paused)}, [2]string{"standard", v.Standard.text()},
				[2]string{"urgent", v.Urgent.text()}, [2]string{"refused", v.DLQ.text()})
		}),
	}
}

func (a *app) buffers(ctx context.Context) (platform.Buffers, error) {
	p, err := a.open(ctx)
	if err != nil {
		return platform.Buffers{}, err
	}
	return p.Buffers(ctx)
}

func (a *app) drainPaused(ctx context.Context) (bool, error) {
	s, err := a.platform.Source.Get(ctx, platform.DrainSwitch)
	if errors.Is(err, registry.ErrUnknown) {
		return false, nil
	}
	return s.Paused, err
}

func (a *app) inboundPauseCommand(use string, paused bool, long string) *cobra.Command {
	short := "stop draining the buffers; submissions wait in them"
	if !paused {
		short = "drain the buffers again"
	}
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			p, err := a.open(ctx)
			if err != nil {
				return err
			}
			if err := p.PauseDrain(ctx, paused); err != nil {
				return err
			}
			return a.out.object(struct {
				Paused bool `json:"paused"`
			}{paused}, "the inbound drain is %s; processes follow within 15s", stateText(paused))
		}),
	}
}
