package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// DefaultAPI is where the HTTP API is unless --api or MYOSIN_API says otherwise:
// where make run serves it.
const DefaultAPI = "http://127.0.0.1:8080"

const (
	apiTimeout = 30 * time.Second // of one request
	apiPage    = 100              // most entries that the API lists at once
)

// apiGroup is a group of commands that call the HTTP API.
func (a *app) apiGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := a.group(use, short, commands...)
	a.apiFlags(g)
	return g
}

func (a *app) apiFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&a.api, "api", a.env("MYOSIN_API", DefaultAPI), "base URL of the HTTP API (MYOSIN_API)")
	f.StringVar(&a.key, "key", "", "API key, or @FILE that holds it (MYOSIN_API_KEY; others on the machine may see flags)")
}

// runAPI is [app.run] for a command that calls the HTTP API.
func (a *app) runAPI(fn func(ctx context.Context, c *jobsapi.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.run(func(ctx context.Context, args []string) error {
		c, err := a.apiClient()
		if err != nil {
			return err
		}
		return a.apiError(fn(ctx, c, args))
	})
}

func (a *app) apiClient() (*jobsapi.Client, error) {
	key, err := a.apiKey()
	if err != nil {
		return nil, err
	}
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	o := jobsapi.ClientOptions{HTTP: &http.Client{
		Timeout:       apiTimeout,
		Transport:     &apiTransport{next: a.host.Transport, log: log},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if key != "" {
		o.Authorize = func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}
	}
	c, err := jobsapi.NewClient(a.api, o)
	if err != nil {
		return nil, usage("--api: %v", err)
	}
	return c, nil
}

// apiKey returns the key to call with; "": none. What is wrong with it is said
// without it.
func (a *app) apiKey() (string, error) {
	key := cmp.Or(a.key, a.env("MYOSIN_API_KEY", ""))
	if path, isFile := strings.CutPrefix(key, "@"); isFile {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", usage("--key: %v", err)
		}
		if key = strings.TrimSpace(string(b)); key == "" {
			return "", usage("--key: %s is empty", path)
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("--key: want printable ASCII without spaces; @FILE reads it from a file")
	}
	return key, nil
}

// apiTransport logs calls with --verbose: never their bodies or headers.
type apiTransport struct {
	next http.RoundTripper // nil: the default one
	log  *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (t *apiTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	began := time.Now()
	resp, err := next.RoundTrip(r)
	if err != nil {
		t.log.Debug("call", "api", r.Method, "path", r.URL.Path, telemetry.KeyDuration, time.Since(began), telemetry.KeyError, err)
		return resp, err
	}
	t.log.Debug("call", "api", r.Method, "path", r.URL.Path, telemetry.KeyDuration, time.Since(began), "status", resp.StatusCode)
	return resp, nil
}

// apiError words an error of the API with its exit code.
func (a *app) apiError(err error) error {
	var exit *exitError
	var problem *jobsapi.Problem
	var unsent *url.Error
	switch {
	case err == nil, errors.As(err, &exit), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &problem):
		return fail(problemCode(problem.Status), "%s", problemText(problem))
	case errors.As(err, &unsent):
		return fail(ExitUnavailable, "cannot reach %s: %w (--api or MYOSIN_API says where the API is)", origin(a.api), innermost(unsent.Err))
	}
	return err
}

func problemCode(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitDenied
	case http.StatusNotFound, http.StatusGone:
		return ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return ExitRefused
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ExitUnavailable
	}
	return ExitFailed
}

// problemText is a line for each field at fault, or what is wrong as a whole.
func problemText(p *jobsapi.Problem) string {
	if len(p.Errors) > 0 {
		lines := make([]string, len(p.Errors))
		for i, f := range p.Errors {
			lines[i] = fieldText(f.Location) + ": " + visible(f.Message)
		}
		return strings.Join(lines, "\nmyosin: ")
	}
	text := visible(cmp.Or(p.Detail, p.Title))
	switch {
	case p.Status == http.StatusUnauthorized:
		text += " (--key or MYOSIN_API_KEY)"
	case p.Status == http.StatusPreconditionFailed:
		text += ": somebody else changed it meanwhile; look at it, then try again"
	case p.State != "":
		text += " (it is " + visible(p.State) + ")"
	}
	return text
}

// fieldText names a field of the API, and the flag that sets it.
func fieldText(field string) string {
	flag := map[string]string{
		"schedule.run_at": "--at, --in", "schedule.expr": "--cron", "schedule.tz": "--tz", "dst.gap": "--gap", "dst.fold": "--fold",
		"target": "--url, --queue or --topic", "target.type": "--url, --queue or --topic", "target.url": "--url", "target.method": "--method", "target.service": "--queue",
		"target.arn": "--topic", "target.timeout": "--call-timeout", "target.group": "--target-group",
		"retry.max_attempts": "--retry-max", "retry.base": "--retry-base", "retry.max": "--retry-max-wait",
		"retry.also": "--retry-also", "delay_tolerance": "--tolerance", "catch_up": "--catch-up",
		"catch_up_window": "--catch-up-window", "notify": "--notify-topic, --notify-webhook", "notify.topic": "--notify-topic",
		"notify.webhook": "--notify-webhook", "payload": "--payload", "payload_base64": "--payload", "tenant": "--tenant",
		"name": "--name", "overlap": "--overlap", "role": "--role", "expires_at": "--expires",
		"header.Idempotency-Key": "--idempotency-key", "contact.topic": "--contact-topic", "contact.webhook": "--contact-webhook",
		"max_concurrent": "--max-concurrent", "expire_others_in": "--expire-others-in",
	}[field]
	for prefix, name := range map[string]string{
		"labels": "--label", "target.headers": "--header", "allow_ranges": "--allow-range",
		"allow_services": "--allow-service", "allow_topics": "--allow-topic", "rates": "--rate",
	} {
		if field == prefix || strings.HasPrefix(field, prefix+".") || strings.HasPrefix(field, prefix+"[") {
			flag = name
		}
	}
	if flag == "" {
		return visible(field)
	}
	return visible(field) + " (" + flag + ")"
}

// uncertain is an error of a call that must not be made twice: it says so where
// the call may have been carried out.
func (a *app) uncertain(err error) error {
	var unsent *url.Error
	var op *net.OpError
	if !errors.As(err, &unsent) || errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return fail(ExitUnavailable, "no answer from %s: %w; it may have been done: look before you repeat it", origin(a.api), innermost(unsent.Err))
}

// pageFlags are those of the commands that list.
type pageFlags struct {
	limit          int
	all            bool
	cursor, tenant string
}

func (p *pageFlags) add(cmd *cobra.Command, what string, tenant bool) {
	f := cmd.Flags()
	f.IntVarP(&p.limit, "limit", "n", apiPage, "most "+what+" to list")
	f.BoolVarP(&p.all, "all", "a", false, "list them all, whatever --limit says")
	f.StringVar(&p.cursor, "cursor", "", "go on where an earlier list ended")
	if tenant {
		tenantVar(cmd, &p.tenant)
	}
}

func tenantVar(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "tenant", "", "whose; default: the tenant of the key")
}

// listed reads pages until it has as many entries as wanted. next is where the
// list goes on; "" at its end.
func listed[T any](ctx context.Context, a *app, p *pageFlags, q jobsapi.List, fetch func(context.Context, jobsapi.List) (jobsapi.Page[T], error)) (items []T, next string, err error) {
	if err := atLeast("limit", p.limit, 1); err != nil {
		return nil, "", err
	}
	items = []T{}
	q.Tenant, q.Cursor = p.tenant, p.cursor
	for {
		q.Limit = apiPage
		if !p.all {
			q.Limit = min(apiPage, p.limit-len(items))
		}
		page, err := fetch(ctx, q)
		if err != nil {
			return nil, "", err
		}
		a.progressed()
		items = append(items, page.Items...)
		if page.NextCursor == "" || !p.all && len(items) >= p.limit {
			return items, page.NextCursor, nil
		}
		q.Cursor = page.NextCursor
	}
}

// more tells people that a list goes on.
func (a *app) more(p *pageFlags, next string) {
	if next != "" {
		a.out.note("there are more: --limit %d was reached; go on with --cursor %s", p.limit, next)
	}
}

// completeJobs offers the first jobs of the tenant to the shell, with their names.
func (a *app) completeJobs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.apiClient()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	page, err := c.Jobs(ctx, jobsapi.List{Limit: apiPage})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := make([]string, len(page.Items))
	for i := range page.Items {
		j := &page.Items[i]
		out[i] = cobra.CompletionWithDesc(j.ID, visible(cmp.Or(j.Name, scheduleText(&j.Schedule)+" "+targetText(&j.Target))))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// oneOf is a flag that takes one of a few words.
type oneOf struct {
	p     *string
	words []string
}

func oneOfVar(cmd *cobra.Command, p *string, name, usage string, words ...string) {
	cmd.Flags().Var(&oneOf{p: p, words: words}, name, usage+": "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // it exists
}

// String implements pflag.Value.
func (o *oneOf) String() string {
	if o.p == nil {
		return ""
	}
	return *o.p
}

// Set implements pflag.Value.
func (o *oneOf) Set(s string) error {
	for _, w := range o.words {
		if strings.EqualFold(w, s) {
			*o.p = w
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(o.words, ", "))
}

// Type implements pflag.Value.
func (*oneOf) Type() string { return "word" }
