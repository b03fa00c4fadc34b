package job

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Job is a definition, once or by cron, and how far its runs have come.
type Job struct {
	ID trigger.ID
	Spec
	Status     JobStatus
	Generation int64 // raised by each [Edit], from 1
	Created    time.Time
	Updated    time.Time
	// Version of the definition, raised by every change of it, of the status
	// included: the job's ETag. From 1.
	Version int64
	Progress
}

// Progress is what changes with every run. It lies in an item of its own, so
// that a large payload is not written again and again.
type Progress struct {
	// Pending is the nominal time of the one occurrence that waits; zero: none.
	Pending time.Time
	// Previous is the occurrence that was armed over last: it may not have begun.
	Previous time.Time
	// Active holds the overlap claim, Waiting is the run that begins when it ends.
	Active, Waiting RunID
	// Wake is when somebody should have come back to the pending occurrence.
	Wake time.Time
	// Seq is raised by the store with every write of the job, its progress included.
	Seq int64
}

// Spec is what a user says of a job.
type Spec struct {
	Name     string // for people; up to 128 characters
	Tenant   string
	Labels   map[string]string // up to 16
	Schedule Timing
	Target   Target
	Payload  []byte // up to trigger.MaxPayload
	Retry    Retry
	// Tolerance: nil promises as soon as possible, zero is urgent, anything else
	// lets the runs be spread over it. Up to 24 h.
	Tolerance     *time.Duration
	Overlap       Overlap
	CatchUp       CatchUp
	CatchUpWindow time.Duration // for CatchUpAll; up to 7 days
	Notify        Notify
}

// Timing says when a job runs: At once, or Cron in Zone.
type Timing struct {
	At     time.Time // whole milliseconds; zero with Cron
	Cron   string
	Zone   string // tz database name
	Policy cron.Policy
}

// Overlap says what becomes of a run that is due while another of its job runs.
type Overlap string

// The overlap policies.
const (
	OverlapAllow Overlap = "allow" // the default: they run beside each other
	OverlapSkip  Overlap = "skip"
	OverlapQueue Overlap = "queue" // one waits; further ones are skipped
)

// CatchUp says what becomes of occurrences that are due together.
type CatchUp string

// The catch-up policies.
const (
	CatchUpLatest CatchUp = "latest" // the default: the last one runs
	CatchUpAll    CatchUp = "all"    // up to MaxCatchUp within the window
	CatchUpSkip   CatchUp = "skip"
)

// TargetType says how a target is called.
type TargetType string

// The types of target.
const (
	TargetHTTP  TargetType = "http"
	TargetQueue TargetType = "queue"
	TargetTopic TargetType = "topic"
)

// Target is what a run calls.
type Target struct {
	Type    TargetType
	URL     string            // http
	Method  string            // http; POST where empty
	Headers map[string]string // http
	Timeout time.Duration     // http; 1 s to 5 min, 30 s where zero
	Group   string            // http: shares breaker and rate; the host where empty
	Service string            // queue: an owning service
	ARN     string            // topic: of an SNS topic
}

// Key names what a breaker and a rate are kept for: the target's group, its
// host, or its service or topic.
func (t Target) Key() string {
	switch {
	case t.Type == TargetQueue:
		return "queue:" + t.Service
	case t.Type == TargetTopic:
		return "topic:" + t.ARN
	case t.Group != "":
		return "group:" + t.Group
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return "host:"
	}
	return "host:" + strings.ToLower(u.Host)
}

// Notify says whom to tell when a run dies. Both empty: the tenant's contact.
type Notify struct {
	Topic   string // ARN of an SNS topic
	Webhook string // a Slack-compatible URL
}

// IsZero reports whether nobody is named.
func (n Notify) IsZero() bool { return n == Notify{} }

// Limits and defaults of a Spec.
const (
	MaxName          = 128
	MaxLabels        = 16
	MaxTolerance     = 24 * time.Hour
	MaxCatchUp       = 100 // runs of one outage under CatchUpAll
	MaxCatchUpWindow = 7 * 24 * time.Hour
	MaxAhead         = 10 * 365 * 24 * time.Hour // of Timing.At
	DefaultTimeout   = 30 * time.Second
	DefaultZone      = "UTC"
)

// DefaultRetry is what a job that says nothing is tried by.
func DefaultRetry() Retry { return Retry{MaxAttempts: 5, Base: 10 * time.Second, Max: time.Hour} }

// WithDefaults fills in what was left out.
func (s Spec) WithDefaults() Spec {
	d := DefaultRetry()
	if s.Retry.MaxAttempts == 0 {
		s.Retry.MaxAttempts = d.MaxAttempts
	}
	if s.Retry.Max == 0 {
		s.Retry.Max = max(d.Max, s.Retry.Base)
	}
	if s.Retry.Base == 0 {
		s.Retry.Base = min(d.Base, s.Retry.Max)
	}
	if s.Overlap == "" {
		s.Overlap = OverlapAllow
	}
	if s.CatchUp == "" {
		s.CatchUp = CatchUpLatest
	}
	if s.CatchUp == CatchUpAll && s.CatchUpWindow == 0 {
		s.CatchUpWindow = time.Hour
	}
	if s.Schedule.Cron != "" && s.Schedule.Zone == "" {
		s.Schedule.Zone = DefaultZone
	}
	if s.Target.Type == TargetHTTP {
		if s.Target.Method == "" {
			s.Target.Method = "POST"
		}
		if s.Target.Timeout == 0 {
			s.Target.Timeout = DefaultTimeout
		}
	}
	return s
}

// Validate reports every fault of a spec with its defaults filled in, joined;
// each is a [*trigger.FieldError] by the name of the field in the API. What a
// target may be (addresses, headers, services) is not its concern.
func (s Spec) Validate(now time.Time) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)})
	}
	if n := utf8.RuneCountInString(s.Name); n > MaxName {
		bad("name", "%d characters; the limit is %d", n, MaxName)
	}
	if !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		bad("name", "has control characters or is not UTF-8")
	}
	if err := ValidTenant(s.Tenant); err != nil {
		bad("tenant", "%v", err)
	}
	errs = append(errs, labels(s.Labels)...)
	errs = append(errs, s.Schedule.validate(now)...)
	if n := len(s.Payload); n > trigger.MaxPayload {
		bad("payload", "%d bytes; the limit is %d", n, trigger.MaxPayload)
	}
	if err := s.Retry.Validate(); err != nil {
		errs = append(errs, err)
	}
	if s.Tolerance != nil && (*s.Tolerance < 0 || *s.Tolerance > MaxTolerance) {
		bad("delay_tolerance", "%s; want 0s to %s", *s.Tolerance, MaxTolerance)
	}
	if !slices.Contains([]Overlap{OverlapAllow, OverlapSkip, OverlapQueue}, s.Overlap) {
		bad("overlap", "%q; want allow, skip or queue", s.Overlap)
	}
	if !slices.Contains([]CatchUp{CatchUpLatest, CatchUpAll, CatchUpSkip}, s.CatchUp) {
		bad("catch_up", "%q; want latest, all or skip", s.CatchUp)
	}
	switch {
	case s.CatchUp != CatchUpAll && s.CatchUpWindow != 0:
		bad("catch_up_window", "needs catch_up: all")
	case s.CatchUpWindow < 0 || s.CatchUpWindow > MaxCatchUpWindow:
		bad("catch_up_window", "%s; want up to %s", s.CatchUpWindow, MaxCatchUpWindow)
	}
	if s.Notify.Topic != "" && s.Notify.Webhook != "" {
		bad("notify", "names a topic and a webhook; want one of them")
	}
	return errors.Join(errs...)
}

// ValidTenant checks a tenant's name: 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'.
func ValidTenant(s string) error { return word(s, 64) }

func word(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("missing")
	case len(s) > limit:
		return fmt.Errorf("%d characters; the limit is %d", len(s), limit)
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q has something other than letters, digits, '-', '_' and '.'", s)
		}
	}
	return nil
}

func labels(l map[string]string) []error {
	var errs []error
	if len(l) > MaxLabels {
		errs = append(errs, &trigger.FieldError{Field: "labels", Msg: fmt.Sprintf("%d; the limit is %d", len(l), MaxLabels)})
	}
	for _, k := range slices.Sorted(maps.Keys(l)) {
		if err := word(k, 64); err != nil {
			errs = append(errs, &trigger.FieldError{Field: "labels", Msg: "name " + err.Error()})
		}
		if len(l[k]) > 128 || !utf8.ValidString(l[k]) {
			errs = append(errs, &trigger.FieldError{Field: "labels." + k, Msg: "over 128 bytes or not UTF-8"})
		}
	}
	return errs
}

// Urgent reports whether the job's runs take the urgent lane.
func (s Spec) Urgent() bool { return s.Tolerance != nil && *s.Tolerance == 0 }

// Recurs reports whether the job runs by cron.
func (t Timing) Recurs() bool { return t.Cron != "" }
