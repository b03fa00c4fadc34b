package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

// maxFile bounds a file that is read: more than the API takes.
const maxFile = 1 << 20

// jobFlags are what defines a job, as flags.
type jobFlags struct {
	name, cron, zone, gap, fold                                string
	at                                                         timeFlag
	in                                                         time.Duration
	url, method, group, queue, topic, payload                  string
	headers, removeHeaders                                     []string
	callTimeout                                                time.Duration
	retryMax                                                   int
	retryBase, retryMaxWait                                    time.Duration
	retryAlso                                                  []int
	tolerance, overlap, catchUp, notifyTopic, notifyWebhook    string
	catchUpWindow                                              time.Duration
	labels, removeLabels                                       []string
	flags                                                      *pflag.FlagSet
	schedule, dst, target, body, retry, tolerant, notify, each bool // what was given; each: anything
}

func (j *jobFlags) add(cmd *cobra.Command, edit bool) {
	f := cmd.Flags()
	j.flags = f
	f.StringVar(&j.name, "name", "", "name, for people")
	f.StringArrayVarP(&j.labels, "label", "l", nil, "name=value; may be repeated")
	f.Var(&j.at, "at", "run once, at a time such as 2027-01-01T09:00:00Z, or \"in 5m\"")
	durationVar(f, &j.in, "in", 0, "run once, so much later, such as 90m or 3d12h")
	f.StringVar(&j.cron, "cron", "", "run by a cron expression, such as \"0 9 * * 1-5\" or @daily")
	f.StringVar(&j.zone, "tz", "", "zone of --cron, such as Asia/Ho_Chi_Minh; default UTC")
	policyFlags(cmd, &j.gap, &j.fold)
	f.StringVar(&j.url, "url", "", "call this URL")
	f.StringVar(&j.method, "method", "", "method of the call; default POST")
	f.StringArrayVarP(&j.headers, "header", "H", nil, "name=value, a header of the call; may be repeated")
	durationVar(f, &j.callTimeout, "call-timeout", 0, "timeout of one call, 1s to 5m; default 30s")
	f.StringVar(&j.group, "target-group", "", "targets of one group share breaker and rate; default: by host")
	f.StringVar(&j.queue, "queue", "", "send to the queue of this owning service")
	f.StringVar(&j.topic, "topic", "", "publish to the SNS topic of this ARN")
	f.StringVarP(&j.payload, "payload", "p", "", "TEXT, @FILE, or - for standard input: delivered byte for byte")
	f.IntVar(&j.retryMax, "retry-max", 0, "attempts at a run; default 5")
	durationVar(f, &j.retryBase, "retry-base", 0, "bound of the first wait, doubled each time; default 10s")
	durationVar(f, &j.retryMaxWait, "retry-max-wait", 0, "longest wait; default 1h")
	f.IntSliceVar(&j.retryAlso, "retry-also", nil, "4xx codes to try again too, such as 408")
	f.StringVar(&j.tolerance, "tolerance", "", "let runs be spread over so long; 0s: urgent; none: as soon as possible (default)")
	oneOfVar(cmd, &j.overlap, "overlap", "while another run is under way", "allow", "skip", "queue")
	oneOfVar(cmd, &j.catchUp, "catch-up", "which of several missed runs are made up for", "latest", "all", "skip")
	durationVar(f, &j.catchUpWindow, "catch-up-window", 0, "how far back --catch-up all goes; default 1h")
	f.StringVar(&j.notifyTopic, "notify-topic", "", "ARN of the SNS topic to tell when a run dies; default: the tenant's contact")
	f.StringVar(&j.notifyWebhook, "notify-webhook", "", "Slack-compatible webhook to tell when a run dies")
	cmd.MarkFlagsMutuallyExclusive("at", "in", "cron")
	cmd.MarkFlagsMutuallyExclusive("url", "queue", "topic")
	if edit {
		f.StringArrayVar(&j.removeLabels, "remove-label", nil, "name of a label to take away; may be repeated")
		f.StringArrayVar(&j.removeHeaders, "remove-header", nil, "name of a header to take away; may be repeated")
	}
}

func policyFlags(cmd *cobra.Command, gap, fold *string) {
	oneOfVar(cmd, gap, "gap", "wall times that the clock skips (default shift)", "shift", "skip")
	oneOfVar(cmd, fold, "fold", "wall times that come twice (default first)", "first", "both")
}

// given notes which parts of a definition have a flag, and whether any has.
func (j *jobFlags) given() bool {
	some := func(names ...string) bool {
		found := slices.ContainsFunc(names, j.flags.Changed)
		j.each = j.each || found
		return found
	}
	j.schedule = some("at", "in", "cron", "tz")
	j.dst = some("gap", "fold")
	j.target = some("url", "method", "header", "remove-header", "call-timeout", "target-group", "queue", "topic")
	j.body = some("payload")
	j.retry = some("retry-max", "retry-base", "retry-max-wait", "retry-also")
	j.tolerant = some("tolerance")
	j.notify = some("notify-topic", "notify-webhook")
	some("name", "label", "remove-label", "overlap", "catch-up", "catch-up-window")
	return j.each
}

// apply puts what was given into a definition.
func (j *jobFlags) apply(a *app, b *jobsapi.CreateJob, now time.Time) error {
	var err error
	if j.flags.Changed("name") {
		b.Name = j.name
	}
	if b.Labels, err = merged("label", b.Labels, j.labels, j.removeLabels); err != nil {
		return err
	}
	j.applySchedule(b, now)
	if err := j.applyTarget(&b.Target); err != nil {
		return err
	}
	if j.body {
		raw, err := a.readPayload(j.payload)
		if err != nil {
			return err
		}
		b.Payload, b.PayloadBase64 = exactPayload(raw)
	}
	if j.retry {
		j.applyRetry(b)
	}
	if j.tolerant {
		if b.DelayTolerance, err = tolerance(j.tolerance); err != nil {
			return err
		}
	}
	set := func(flag string, to *string, v string) {
		if j.flags.Changed(flag) {
			*to = v
		}
	}
	set("overlap", &b.Overlap, j.overlap)
	set("catch-up", &b.CatchUp, j.catchUp)
	if j.flags.Changed("catch-up-window") {
		b.CatchUpWindow = jobsapi.Duration(j.catchUpWindow)
	}
	if j.notify {
		if b.Notify == nil {
			b.Notify = &jobsapi.Notify{}
		}
		set("notify-topic", &b.Notify.Topic, j.notifyTopic)
		set("notify-webhook", &b.Notify.Webhook, j.notifyWebhook)
	}
	return nil
}

func (j *jobFlags) applySchedule(b *jobsapi.CreateJob, now time.Time) {
	s := &b.Schedule
	switch {
	case j.flags.Changed("at"):
		*s = jobsapi.Schedule{Type: "once", RunAt: j.at.at(now, now)}
	case j.flags.Changed("in"):
		*s = jobsapi.Schedule{Type: "once", RunAt: now.Add(j.in).UTC().Truncate(time.Millisecond)}
	case j.flags.Changed("cron"):
		*s = jobsapi.Schedule{Type: "cron", Expr: j.cron, TZ: s.TZ}
	}
	if j.flags.Changed("tz") {
		s.TZ = j.zone
	}
	if j.dst {
		d := jobsapi.DST{}
		if b.DST != nil {
			d = *b.DST
		}
		if j.gap != "" {
			d.Gap = j.gap
		}
		if j.fold != "" {
			d.Fold = j.fold
		}
		b.DST = &d
	}
}

func (j *jobFlags) applyTarget(t *jobsapi.Target) (err error) {
	if !j.target {
		return nil
	}
	switch {
	case j.flags.Changed("url"):
		if t.Type != "http" {
			*t = jobsapi.Target{Type: "http"}
		}
		t.URL = j.url
	case j.flags.Changed("queue"):
		*t = jobsapi.Target{Type: "queue", Service: j.queue}
	case j.flags.Changed("topic"):
		*t = jobsapi.Target{Type: "topic", ARN: j.topic}
	}
	if j.flags.Changed("method") {
		t.Method = j.method
	}
	if j.flags.Changed("call-timeout") {
		t.Timeout = jobsapi.Duration(j.callTimeout)
	}
	if j.flags.Changed("target-group") {
		t.Group = j.group
	}
	t.Headers, err = merged("header", t.Headers, j.headers, j.removeHeaders)
	return err
}

func (j *jobFlags) applyRetry(b *jobsapi.CreateJob) {
	r := jobsapi.Retry{}
	if b.Retry != nil {
		r = *b.Retry
	}
	if j.flags.Changed("retry-max") {
		r.MaxAttempts = j.retryMax
	}
	if j.flags.Changed("retry-base") {
		r.Base = jobsapi.Duration(j.retryBase)
	}
	if j.flags.Changed("retry-max-wait") {
		r.Max = jobsapi.Duration(j.retryMaxWait)
	}
	if j.flags.Changed("retry-also") {
		r.Also = j.retryAlso
	}
	b.Retry = &r
}

// patch is what of a definition is to be sent, after [jobFlags.apply].
func (j *jobFlags) patch(b *jobsapi.CreateJob) *jobsapi.PatchJob {
	p := &jobsapi.PatchJob{}
	if j.flags.Changed("name") {
		p.Name = &b.Name
	}
	if len(j.labels)+len(j.removeLabels) > 0 {
		p.Labels = &b.Labels
	}
	if j.schedule {
		p.Schedule = &b.Schedule
	}
	if j.dst {
		p.DST = b.DST
	}
	if j.target {
		p.Target = &b.Target
	}
	if j.body {
		p.Payload, p.PayloadBase64 = b.Payload, b.PayloadBase64
	}
	if j.retry {
		p.Retry = b.Retry
	}
	if j.tolerant {
		text := ""
		if b.DelayTolerance != nil {
			text = b.DelayTolerance.String()
		}
		p.DelayTolerance = &text
	}
	if j.flags.Changed("overlap") {
		p.Overlap = &b.Overlap
	}
	if j.flags.Changed("catch-up") {
		p.CatchUp = &b.CatchUp
	}
	if j.flags.Changed("catch-up-window") {
		p.CatchUpWindow = &b.CatchUpWindow
	}
	if j.notify {
		p.Notify = b.Notify
	}
	return p
}

// definition is a job as it can be given anew, without its payload.
func definition(j *jobsapi.Job) *jobsapi.CreateJob {
	return &jobsapi.CreateJob{
		Name: j.Name, Tenant: j.Tenant, Labels: j.Labels, Schedule: j.Schedule, Target: j.Target, Retry: &j.Retry,
		DelayTolerance: j.DelayTolerance, Overlap: j.Overlap, CatchUp: j.CatchUp, CatchUpWindow: j.CatchUpWindow,
		DST: j.DST, Notify: j.Notify,
	}
}

func tolerance(s string) (*jobsapi.Duration, error) {
	if s == "none" || s == "" {
		return nil, nil //nolint:nilnil // there is none.
	}
	d, err := when.Duration(s)
	if err != nil || d < 0 {
		return nil, usage("--tolerance %q: want a duration such as 5m, 0s, or none", s)
	}
	v := jobsapi.Duration(d)
	return &v, nil
}

// merged adds name=value pairs to a map and takes names out of it.
func merged(flag string, have map[string]string, add, remove []string) (map[string]string, error) {
	if len(add)+len(remove) == 0 {
		return have, nil
	}
	out := maps.Clone(have)
	if out == nil {
		out = make(map[string]string, len(add))
	}
	for _, name := range remove {
		if _, ok := out[name]; !ok {
			return nil, usage("--remove-%s %q: the job has no such %s", flag, name, flag)
		}
		delete(out, name)
	}
	seen := make(map[string]bool, len(add))
	for _, pair := range add {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || seen[name] {
			return nil, usage("--%s %q: want name=value, each name once", flag, pair)
		}
		seen[name], out[name] = true, value
	}
	return out, nil
}

// exactPayload returns bytes as a body holds them: as JSON where encoding leaves
// them alone, else in base64, so that every byte arrives. No bytes are base64 too:
// they replace what was.
func exactPayload(b []byte) (json.RawMessage, *string) {
	if again, err := json.Marshal(json.RawMessage(b)); err == nil && bytes.Equal(again, b) {
		return b, nil
	}
	coded := base64.StdEncoding.EncodeToString(b)
	return nil, &coded
}

// readBody reads a JSON file, or standard input for "-", into a body of the API.
func (a *app) readBody(path string, into any) error {
	in := a.host.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return fail(ExitRefused, "--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return fail(ExitRefused, "--file: %w", err)
	case len(b) > maxFile:
		return fail(ExitRefused, "--file: %s has more than %d bytes", path, maxFile)
	}
	err = jobsapi.Decode(b, into)
	if errors.Is(err, jobsapi.ErrNotJSON) {
		return fail(ExitRefused, "--file: %s: %s", path, notJSON(b))
	}
	if fields := client.ProblemOf(err).Errors; err != nil && len(fields) > 0 {
		lines := make([]string, len(fields))
		for i, f := range fields {
			lines[i] = "--file: " + path + ": " + visible(f.Location) + ": " + visible(f.Message)
		}
		return fail(ExitRefused, "%s", strings.Join(lines, "\nmyosin: "))
	}
	return err
}

// notJSON says where a text stops to be JSON.
func notJSON(b []byte) string {
	var at *json.SyntaxError
	if err := json.Unmarshal(b, new(any)); errors.As(err, &at) {
		line := 1 + bytes.Count(b[:min(int(at.Offset), len(b))], []byte{'\n'})
		return fmt.Sprintf("line %d: not JSON: %v", line, at)
	}
	return "not JSON"
}
