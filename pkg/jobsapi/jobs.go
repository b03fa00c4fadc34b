package jobsapi

import (
	"encoding/json"
	"time"

	"github.com/myosin-jobs/myosin/pkg/cron"
)

// Paths of the API.
const (
	JobsPath        = "/v1/jobs"
	RunsPath        = "/v1/runs"
	DeadLettersPath = "/v1/dead-letters"
	RedrivePath     = "/v1/dead-letters/redrive"
	PreviewPath     = "/v1/schedules/preview"
	TenantsPath     = "/v1/tenants"
	KeysPath        = "/v1/keys"
	SecretsPath     = "/v1/secrets" // #nosec G101 -- a path
	AuditPath       = "/v1/audit"
	ForecastPath    = "/v1/forecast"
)

// Schedule says when a job runs.
type Schedule struct {
	Type  string    `json:"type" required:"true" enum:"once,cron" doc:"once needs run_at, cron needs expr"`
	RunAt time.Time `json:"run_at,omitzero" doc:"once: when, up to ten years ahead; a time that is past means at once" example:"2026-03-29T09:00:00Z"`
	Expr  string    `json:"expr,omitempty" maxLength:"256" doc:"cron: five fields (minute, hour, day of month, month, day of week) or @daily and the like" example:"0 9 * * 1-5"`
	TZ    string    `json:"tz,omitempty" maxLength:"64" doc:"cron: zone of the tz database; UTC by default" example:"Asia/Ho_Chi_Minh"`
}

// DST says what becomes of wall times that a clock skips or repeats.
type DST struct {
	Gap  string `json:"gap,omitempty" enum:"shift,skip" doc:"Skipped wall times: shift (default) runs once after the gap, skip records a SKIPPED run"`
	Fold string `json:"fold,omitempty" enum:"first,both" doc:"Repeated wall times: first (default) or both"`
}

// Target is what a run calls.
type Target struct {
	Type    string            `json:"type" required:"true" enum:"http,queue,topic"`
	URL     string            `json:"url,omitempty" maxLength:"2048" doc:"http" example:"https://example.com/hooks/report"`
	Method  string            `json:"method,omitempty" maxLength:"16" doc:"http: POST by default"`
	Headers map[string]string `json:"headers,omitempty" doc:"http: headers of your own"`
	Timeout Duration          `json:"timeout,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"http: of one call, 1s to 5m; 30s by default" example:"30s"`
	Group   string            `json:"group,omitempty" maxLength:"128" doc:"http: targets of one group share breaker and rate; the host by default"`
	Service string            `json:"service,omitempty" maxLength:"128" doc:"queue: an owning service of the registry" example:"payments"`
	ARN     string            `json:"arn,omitempty" maxLength:"512" doc:"topic: of an SNS topic"`
}

// Retry says how often and when a failed run is tried again.
type Retry struct {
	MaxAttempts int      `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"5 by default; crashes of Myosin's own are not counted"`
	Base        Duration `json:"base,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"Bound of the first wait, doubled each time; 10s by default" example:"10s"`
	Max         Duration `json:"max,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"Largest wait, up to 24h; 1h by default" example:"1h"`
	Also        []int    `json:"also,omitempty" maxItems:"100" doc:"4xx codes to be tried again as well, never 410" example:"[408]"`
}

// Notify names whom to tell when a run dies.
type Notify struct {
	Topic   string `json:"topic,omitempty" maxLength:"512" doc:"ARN of an SNS topic"`
	Webhook string `json:"webhook,omitempty" maxLength:"2048" doc:"Slack-compatible URL"`
}

// CreateJob is the body that creates a job.
type CreateJob struct {
	Name           string            `json:"name,omitempty" maxLength:"128" doc:"For people" example:"morning report"`
	Tenant         string            `json:"tenant,omitempty" maxLength:"64" doc:"Whose job; the caller's tenant by default"`
	Labels         map[string]string `json:"labels,omitempty" doc:"Up to 16"`
	Schedule       Schedule          `json:"schedule" required:"true"`
	Target         Target            `json:"target" required:"true"`
	Payload        json.RawMessage   `json:"payload,omitempty" doc:"Any JSON, up to 256 KiB, delivered byte for byte"`
	PayloadBase64  *string           `json:"payload_base64,omitempty" doc:"Or any bytes, in base64"`
	Retry          *Retry            `json:"retry,omitempty" also:"retryPolicy"`
	DelayTolerance *Duration         `json:"delay_tolerance,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"Lets runs be spread over so much, up to 24h. 0s: urgent. Absent: as soon as possible" example:"5m"`
	Overlap        string            `json:"overlap,omitempty" enum:"allow,skip,queue" doc:"When due while another run of the job is under way; allow by default"`
	CatchUp        string            `json:"catch_up,omitempty" enum:"latest,all,skip" doc:"Which of several missed occurrences run; latest by default"`
	CatchUpWindow  Duration          `json:"catch_up_window,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"For catch_up all: how far back, up to 168h; 1h by default" example:"1h"`
	DST            *DST              `json:"dst,omitempty" doc:"For cron: what clock changes do"`
	Notify         *Notify           `json:"notify,omitempty" doc:"Whom to tell when a run dies; the tenant's contact by default"`
}

// PatchJob is the body that changes a job: what is given replaces what was, whole
// objects included.
type PatchJob struct {
	Status         *string            `json:"status,omitempty" enum:"active,paused" doc:"Resume or pause"`
	Name           *string            `json:"name,omitempty" maxLength:"128"`
	Labels         *map[string]string `json:"labels,omitempty"`
	Schedule       *Schedule          `json:"schedule,omitempty"`
	Target         *Target            `json:"target,omitempty"`
	Payload        json.RawMessage    `json:"payload,omitempty" doc:"Any JSON, up to 256 KiB"`
	PayloadBase64  *string            `json:"payload_base64,omitempty" doc:"Or any bytes, in base64"`
	Retry          *Retry             `json:"retry,omitempty" also:"retryPolicy"`
	DelayTolerance *string            `json:"delay_tolerance,omitempty" maxLength:"64" doc:"A duration; empty: as soon as possible" example:"5m"`
	Overlap        *string            `json:"overlap,omitempty" enum:"allow,skip,queue"`
	CatchUp        *string            `json:"catch_up,omitempty" enum:"latest,all,skip"`
	CatchUpWindow  *Duration          `json:"catch_up_window,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$"`
	DST            *DST               `json:"dst,omitempty"`
	Notify         *Notify            `json:"notify,omitempty" doc:"{}: the tenant's contact"`
}

// Job is a job as the API shows it.
type Job struct {
	ID             string            `json:"id"`
	Status         string            `json:"status" enum:"active,paused,deleted"`
	Name           string            `json:"name,omitempty"`
	Tenant         string            `json:"tenant"`
	Labels         map[string]string `json:"labels,omitempty"`
	Schedule       Schedule          `json:"schedule"`
	Target         Target            `json:"target"`
	Payload        json.RawMessage   `json:"payload,omitempty" doc:"Where it is JSON; not in lists, and only for roles that may see it"`
	PayloadBase64  string            `json:"payload_base64,omitempty" doc:"Where it is not JSON"`
	PayloadBytes   int               `json:"payload_bytes,omitempty" doc:"Its size; not in lists"`
	Retry          Retry             `json:"retry"`
	DelayTolerance *Duration         `json:"delay_tolerance,omitempty"`
	Overlap        string            `json:"overlap" enum:"allow,skip,queue"`
	CatchUp        string            `json:"catch_up" enum:"latest,all,skip"`
	CatchUpWindow  Duration          `json:"catch_up_window,omitempty"`
	DST            *DST              `json:"dst,omitempty"`
	Notify         *Notify           `json:"notify,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
	Version        int64             `json:"version" doc:"Raised by every change; the ETag"`
	Generation     int64             `json:"generation" doc:"Raised by changes of schedule, pause and resume"`
	NextRunAt      *time.Time        `json:"next_run_at,omitempty" doc:"Absent where none is to come"`
	NextRunID      string            `json:"next_run_id,omitempty" doc:"Of the run that waits: look it up or cancel it"`
	LastRun        *RunBrief         `json:"last_run,omitempty" doc:"The newest that has begun or ended; not in lists"`
	FireTimes      []time.Time       `json:"fire_times,omitempty" doc:"The next five; told on creation and change"`
	Warnings       []Warning         `json:"warnings,omitempty" doc:"What you may not have meant; told on creation and change"`
}

// RunBrief is the gist of a run.
type RunBrief struct {
	ID          string    `json:"id"`
	Status      string    `json:"status"`
	ScheduledAt time.Time `json:"scheduled_at"`
}

// Warning is something the author of a job may not have meant.
type Warning = cron.Warning

// Preview is the body that asks for a schedule's fire times.
type Preview struct {
	Schedule Schedule  `json:"schedule" required:"true"`
	DST      *DST      `json:"dst,omitempty"`
	From     time.Time `json:"from,omitzero" doc:"Fire times after this; now by default"`
	Count    int       `json:"count,omitempty" minimum:"1" maximum:"100" doc:"How many; 5 by default"`
}

// PreviewAnswer is what a schedule means.
type PreviewAnswer struct {
	FireTimes []time.Time `json:"fire_times" doc:"In UTC; fewer than asked for where the schedule ends"`
	TZ        string      `json:"tz" doc:"The zone the fields were read in"`
	Warnings  []Warning   `json:"warnings"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Where the list goes on; absent at its end. A page may be short of its limit, even empty, and have one"`
}
