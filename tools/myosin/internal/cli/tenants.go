package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func (a *app) tenantsCommand() *cobra.Command {
	return a.apiGroup("tenants", "records of tenants: contact, caps, allowed targets", a.tenantsGetCommand(), a.tenantsPutCommand())
}

func (a *app) tenantsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get TENANT", Short: "show a tenant's record", Args: exactly("TENANT"),
		RunE: a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
			t, err := c.Tenant(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printTenant(&t)
		}),
	}
}

func (a *app) printTenant(t *jobsapi.Tenant) error {
	contact, most := "", "no cap"
	if t.Contact != nil {
		contact = strings.TrimSpace(t.Contact.Topic + " " + t.Contact.Webhook)
	}
	if t.MaxConcurrent > 0 {
		most = strconv.Itoa(t.MaxConcurrent) + " at once"
	}
	list := func(l []string) string { return visible(strings.Join(l, " ")) }
	rates := make([]string, 0, len(t.Rates))
	for _, target := range slices.Sorted(maps.Keys(t.Rates)) {
		rates = append(rates, target+"="+strconv.FormatFloat(t.Rates[target], 'g', -1, 64))
	}
	return a.out.fields(t, [][2]string{
		{"tenant", t.ID}, {"contact", visible(contact)}, {"calls", most}, {"ranges", list(t.AllowRanges)},
		{"services", list(t.AllowServices)}, {"topics", list(t.AllowTopics)}, {"rates", list(rates)},
		{"changed", stamp(t.UpdatedAt)}, {"version", strconv.FormatInt(t.Version, 10)},
	}...)
}

func (a *app) tenantsPutCommand() *cobra.Command {
	var (
		file, topic, webhook     string
		most                     int
		ranges, services, topics []string
		rates                    []string
		version                  int64
	)
	cmd := &cobra.Command{
		Use: "put TENANT", Short: "create or change a tenant's record",
		Long: `Create or change a tenant's record. Each flag replaces what it names, lists as a
whole, and leaves the rest alone; an empty value takes it away. --file replaces
the whole record by the API's body, as JSON.`,
		Example: `  myosin tenants put acme --contact-webhook https://hooks.example.com/acme --max-concurrent 50
  myosin tenants put acme --allow-service 'acme-*' --rate host:api.example.com=20`,
		Args: exactly("TENANT"),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "JSON file with the record, or - for standard input")
	f.StringVar(&topic, "contact-topic", "", "ARN of the SNS topic to tell when a run dies")
	f.StringVar(&webhook, "contact-webhook", "", "Slack-compatible webhook to tell when a run dies")
	f.IntVar(&most, "max-concurrent", 0, "calls under way over the fleet; 0: no cap")
	f.StringSliceVar(&ranges, "allow-range", nil, "private address range (CIDR) that targets may be in; may be repeated")
	f.StringSliceVar(&services, "allow-service", nil, "owning service that targets may be; * at the end matches by prefix")
	f.StringSliceVar(&topics, "allow-topic", nil, "ARN of a topic that targets may be; * stands for any text without colons")
	f.StringArrayVar(&rates, "rate", nil, "target=calls per second, such as host:api.example.com=20; may be repeated")
	ifVersionVar(cmd, &version, "the record")
	cmd.RunE = a.runAPI(func(ctx context.Context, c *jobsapi.Client, args []string) error {
		given := func(names ...string) bool { return slices.ContainsFunc(names, f.Changed) }
		some := given("contact-topic", "contact-webhook", "max-concurrent", "allow-range", "allow-service", "allow-topic", "rate")
		body := jobsapi.PutTenant{}
		switch {
		case file != "" && some:
			return usage("give --file, or flags that change something, not both")
		case file == "" && !some:
			return usage("nothing to change: give a flag, or --file")
		case file != "":
			if err := a.readBody(file, &body); err != nil {
				return err
			}
		default:
			was, err := c.Tenant(ctx, args[0])
			if p := (*jobsapi.Problem)(nil); err != nil && (!errors.As(err, &p) || p.Status != http.StatusNotFound) {
				return err
			}
			a.progressed()
			body, version = was.PutTenant, cmp.Or(version, was.Version)
			if given("contact-topic", "contact-webhook") {
				contact := jobsapi.Notify{}
				if body.Contact != nil {
					contact = *body.Contact
				}
				if given("contact-topic") {
					contact.Topic = topic
				}
				if given("contact-webhook") {
					contact.Webhook = webhook
				}
				body.Contact = &contact
				if contact == (jobsapi.Notify{}) {
					body.Contact = nil
				}
			}
			if given("max-concurrent") {
				body.MaxConcurrent = most
			}
			for flag, to := range map[string]*[]string{"allow-range": &body.AllowRanges, "allow-service": &body.AllowServices, "allow-topic": &body.AllowTopics} {
				if given(flag) {
					*to = map[string][]string{"allow-range": ranges, "allow-service": services, "allow-topic": topics}[flag]
				}
			}
			if given("rate") {
				if body.Rates, err = rateMap(rates); err != nil {
					return err
				}
			}
		}
		t, err := c.PutTenant(ctx, args[0], version, &body)
		if err != nil {
			return a.uncertain(err)
		}
		return a.printTenant(&t)
	})
	return cmd
}

// rateMap reads target=rate pairs; one empty value stands for none.
func rateMap(pairs []string) (map[string]float64, error) {
	out := make(map[string]float64, len(pairs))
	if len(pairs) == 1 && pairs[0] == "" {
		return out, nil
	}
	for _, pair := range pairs {
		i := strings.LastIndexByte(pair, '=') // targets may hold one
		if i < 1 {
			return nil, usage("--rate %q: want target=calls per second", pair)
		}
		n, err := strconv.ParseFloat(pair[i+1:], 64)
		if _, twice := out[pair[:i]]; err != nil || twice {
			return nil, usage("--rate %q: want target=calls per second, each target once", pair)
		}
		out[pair[:i]] = n
	}
	return out, nil
}
