package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
)

// serviceJSON is a service as JSON shows it: the registry's attributes.
type serviceJSON struct {
	Name           string    `json:"name"`
	QueueURL       string    `json:"queue_url"`
	UrgentQueueURL string    `json:"urgent_queue_url,omitempty"`
	DLQURL         string    `json:"dlq_url,omitempty"`
	Rate           float64   `json:"rate"`
	FIFO           bool      `json:"fifo"`
	Senders        []string  `json:"senders,omitempty"`
	Owner          string    `json:"owner,omitempty"`
	Alert          string    `json:"alert,omitempty"`
	Paused         bool      `json:"paused"`
	Updated        time.Time `json:"updated,omitzero"`
}

func serviceOf(s *registry.Service) serviceJSON {
	return serviceJSON{
		Name: s.Name, QueueURL: s.QueueURL, UrgentQueueURL: s.UrgentQueueURL, DLQURL: s.DLQURL, Rate: s.Rate, FIFO: s.FIFO,
		Senders: s.Senders, Owner: s.Owner, Alert: s.Alert, Paused: s.Paused, Updated: s.Updated,
	}
}

// lister lists the registry.
type lister interface {
	List(ctx context.Context) ([]registry.Service, error)
}

// listServices returns the services: all entries but the switch of the drain.
// Beside a registry.PartialError they are those that could be read.
func listServices(ctx context.Context, l lister) ([]registry.Service, error) {
	all, err := l.List(ctx)
	all = slices.DeleteFunc(all, func(s registry.Service) bool { return s.Name == platform.DrainSwitch })
	return all, err
}

func (a *app) servicesCommand() *cobra.Command {
	return a.group("services", "owning services: their queues and limits",
		a.servicesListCommand(), a.servicesShowCommand(), a.servicesAddCommand(),
		a.pauseCommand("pause", "hold back a service's deliveries; submissions are stored", true),
		a.pauseCommand("resume", "deliver again, oldest first", false),
		a.servicesRateCommand())
}

func (a *app) servicesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the services", Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error {
			p, err := a.open(ctx)
			if err != nil {
				return err
			}
			all, err := listServices(ctx, p.Source)
			var partial *registry.PartialError
			if err != nil && !errors.As(err, &partial) {
				return err
			}
			list := make([]serviceJSON, len(all))
			rows := make([][]string, len(all))
			for i := range all {
				s := &all[i]
				list[i] = serviceOf(s)
				rows[i] = []string{s.Name, rateText(s.Rate), kindText(s), stateText(s.Paused), orDash(visible(s.Owner)), s.QueueURL}
			}
			if err := a.out.table(list, "no services: myosin services add NAME", "NAME RATE QUEUE STATE OWNER URL", rows); err != nil {
				return err
			}
			if partial != nil {
				return fail(ExitFailed, "entries that cannot be read are left out: %w", partial)
			}
			return nil
		}),
	}
}

func rateText(r float64) string {
	if r == 0 {
		return "unlimited"
	}
	return strconv.FormatFloat(r, 'f', -1, 64) + "/s"
}

func kindText(s *registry.Service) string {
	text := "standard"
	if s.FIFO {
		text = "fifo"
	}
	if s.UrgentQueueURL != "" {
		text += "+urgent"
	}
	return text
}

func stateText(paused bool) string {
	if paused {
		return "paused"
	}
	return "active"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// depthJSON is what a queue says of itself, approximately.
type depthJSON struct {
	Visible  int `json:"visible"`
	InFlight int `json:"in_flight"`
	Delayed  int `json:"delayed"`
}

func (d *depthJSON) text() string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%d visible, %d in flight, %d delayed", d.Visible, d.InFlight, d.Delayed)
}

// depth reads the counts of a queue; nil for no queue or one that is missing.
func (a *app) depth(ctx context.Context, url string) (*depthJSON, error) {
	if url == "" {
		return nil, nil
	}
	d, err := a.platform.Queues.Depth(ctx, url)
	switch {
	case errors.Is(err, queue.ErrMissing):
		a.out.note("myosin: queue %s does not exist", url)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &depthJSON{Visible: d.Visible, InFlight: d.InFlight, Delayed: d.Delayed}, nil
}

func (a *app) servicesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "show a service and the depths of its queues", Args: exactly("NAME"),
		ValidArgsFunction: a.completeServices,
		RunE: a.run(func(ctx context.Context, args []string) error {
			p, err := a.open(ctx)
			if err != nil {
				return err
			}
			s, err := p.Source.Get(ctx, args[0])
			if err != nil {
				return unknownService(args[0], err)
			}
			v := struct {
				serviceJSON
				Queue       *depthJSON `json:"queue,omitempty"`
				UrgentQueue *depthJSON `json:"urgent_queue,omitempty"`
				DLQ         *depthJSON `json:"dlq,omitempty"`
			}{serviceJSON: serviceOf(&s)}
			for url, to := range map[string]**depthJSON{s.QueueURL: &v.Queue, s.UrgentQueueURL: &v.UrgentQueue, s.DLQURL: &v.DLQ} {
				if *to, err = a.depth(ctx, url); err != nil {
					return err
				}
			}
			return a.out.fields(v,
				[2]string{"name", s.Name}, [2]string{"state", stateText(s.Paused)}, [2]string{"rate", rateText(s.Rate)},
				[2]string{"kind", kindText(&s)}, [2]string{"owner", visible(s.Owner)}, [2]string{"alert", visible(s.Alert)},
				[2]string{"queue", s.QueueURL}, [2]string{"", v.Queue.text()},
				[2]string{"urgent queue", s.UrgentQueueURL}, [2]string{"", v.UrgentQueue.text()},
				[2]string{"dead letters", s.DLQURL}, [2]string{"", v.DLQ.text()},
				[2]string{"updated", stamp(s.Updated)})
		}),
	}
}

// registrySource is what changes the registry.
type registrySource interface {
	SetPaused(ctx context.Context, name string, paused bool) error
	SetRate(ctx context.Context, name string, rate float64) error
}

func (a *app) pauseCommand(use, short string, paused bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME…", Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeServices,
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.eachService(ctx, args, stateText(paused), func(src registrySource, name string) error {
				return src.SetPaused(ctx, name, paused)
			})
		}),
	}
}

func (a *app) servicesRateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rate NAME DELIVERIES_PER_SECOND", Short: "change a service's rate over the whole fleet; 0: no limit",
		Args: exactly("NAME", "DELIVERIES_PER_SECOND"), ValidArgsFunction: a.completeServices,
		RunE: a.run(func(ctx context.Context, args []string) error {
			rate, err := strconv.ParseFloat(args[1], 64)
			if err != nil {
				return usage("rate: %q is not a number of deliveries per second; 0 means no limit", args[1])
			}
			return a.eachService(ctx, args[:1], rateText(rate), func(src registrySource, name string) error {
				return src.SetRate(ctx, name, rate)
			})
		}),
	}
}

// eachService changes services one by one and prints what they are now.
func (a *app) eachService(ctx context.Context, names []string, what string, change func(src registrySource, name string) error) error {
	p, err := a.open(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == platform.DrainSwitch {
			return fail(ExitRefused, "service %q is the switch of the inbound drain: myosin inbound pause|resume", name)
		}
		if err := change(p.Source, name); err != nil {
			return unknownService(name, err)
		}
		s, err := p.Source.Get(ctx, name)
		if err != nil {
			return unknownService(name, err)
		}
		if err := a.out.object(serviceOf(&s), "%s is %s", name, what); err != nil {
			return err
		}
	}
	return nil
}

type addFlags struct {
	fifo, urgent bool
	rate         float64
	owner, alert string
	senders      []string
}

func (a *app) servicesAddCommand() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use: "add NAME", Short: "create a service's queues and registry entry, where Terraform does not",
		Long: `Create the queue of a service and its dead-letter queue (messages are kept 14 days
and may have 1 MiB; five receives, then dead letter), and its entry in the
registry. A repeat creates what is missing and changes only what its flags name.
On AWS let the Terraform module own both instead.`,
		Args: exactly("NAME"),
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.fifo, "fifo", false, "FIFO queues; cannot be changed later")
	fl.BoolVar(&f.urgent, "urgent-queue", false, "a queue of its own for the urgent lane")
	fl.Float64Var(&f.rate, "rate", 0, "deliveries per second over the whole fleet; 0: no limit")
	fl.StringVar(&f.owner, "owner", "", "contact of the owning team")
	fl.StringVar(&f.alert, "alert", "", "where the owner is told: SNS topic ARN or webhook URL")
	fl.StringArrayVar(&f.senders, "sender", nil, "SQS SenderId allowed to submit, or the start of one and '*'; default: everyone")
	cmd.RunE = a.run(func(ctx context.Context, args []string) error { return a.add(ctx, args[0], &f, fl.Changed) })
	return cmd
}

func (a *app) add(ctx context.Context, name string, f *addFlags, given func(string) bool) error {
	p, err := a.open(ctx)
	if err != nil {
		return err
	}
	if err := p.Names.ValidService(name); err != nil {
		return fail(ExitRefused, "%w", err)
	}
	if err := registry.ValidRate(f.rate); err != nil {
		return err
	}
	svc, err := p.Source.Get(ctx, name)
	existed := err == nil
	switch {
	case errors.Is(err, registry.ErrUnknown):
		svc = registry.Service{Name: name, FIFO: f.fifo}
	case err != nil:
		return err
	case given("fifo") && svc.FIFO != f.fifo:
		return fail(ExitConflict, "service %q has %s queues, which cannot be changed: remove it, or add another", name, kindText(&svc))
	}
	for flag, set := range map[string]func(){
		"rate":   func() { svc.Rate = f.rate },
		"owner":  func() { svc.Owner = f.owner },
		"alert":  func() { svc.Alert = f.alert },
		"sender": func() { svc.Senders = f.senders },
	} {
		if given(flag) {
			set()
		}
	}
	// Queues of other names are somebody else's work, most likely Terraform's.
	if existed && svc.QueueURL != "" && !ours(svc.QueueURL, p.Names.ServiceQueue(name, svc.FIFO)) {
		if f.urgent && svc.UrgentQueueURL == "" {
			return fail(ExitConflict, "service %q has a queue that was not made here (%s): whoever made it makes the urgent one", name, svc.QueueURL)
		}
		if err := p.Source.Put(ctx, svc); err != nil {
			return err
		}
	} else if svc, err = p.EnsureService(ctx, svc, f.urgent || svc.UrgentQueueURL != ""); err != nil {
		return err
	}
	if svc, err = p.Source.Get(ctx, name); err != nil {
		return err
	}
	verb := "added"
	if existed {
		verb = "updated"
	}
	return a.out.object(serviceOf(&svc), "%s %s: %s, rate %s\nqueue %s", verb, name, kindText(&svc), rateText(svc.Rate), svc.QueueURL)
}

// ours reports whether a queue URL ends in the given name.
func ours(url, name string) bool {
	return len(url) > len(name) && url[len(url)-len(name)-1:] == "/"+name
}
