package jobsapi

import (
	"encoding/json"
	"time"
)

// Queued is shown in the place of SCHEDULED for a run that is due.
const Queued = "QUEUED"

// Run is a run as the API shows it.
type Run struct {
	ID              string     `json:"id"`
	Job             string     `json:"job"`
	Tenant          string     `json:"tenant"`
	Status          string     `json:"status" enum:"SCHEDULED,QUEUED,RUNNING,RETRY,SUCCEEDED,DEAD,CANCELLED,SKIPPED"`
	Kind            string     `json:"kind" enum:"schedule,manual,redrive,notice,dst_gap,catch_up" doc:"Where the run comes from"`
	ScheduledAt     time.Time  `json:"scheduled_at" doc:"Nominal time"`
	TZ              string     `json:"tz,omitempty" doc:"Zone of the job"`
	Generation      int64      `json:"generation"`
	Attempt         int        `json:"attempt" doc:"Attempts begun so far; the present one is what heartbeat and complete name"`
	Failures        int        `json:"failures"`
	Crashes         int        `json:"crashes,omitempty" doc:"Attempts that ended without a result; they do not use up max_attempts"`
	Deferrals       int        `json:"deferrals,omitempty" doc:"How often the target was not ready"`
	NotBefore       *time.Time `json:"not_before,omitempty" doc:"When the next attempt may begin"`
	LeaseUntil      *time.Time `json:"lease_until,omitempty"`
	Accepted        bool       `json:"accepted,omitempty" doc:"The target answered 202 and completes the run itself"`
	CancelRequested bool       `json:"cancel_requested,omitempty"`
	Reason          string     `json:"reason,omitempty" doc:"Why it stands where it stands"`
	EndedAt         *time.Time `json:"ended_at,omitempty"`
	OriginalRun     string     `json:"original_run_id,omitempty" doc:"The first run that this one repeats"`
	RedrivenAs      string     `json:"redriven_as,omitempty" doc:"The run that repeats this one"`
	Skipped         *Range     `json:"skipped,omitempty" doc:"Where the record stands for several occurrences"`
	Attempts        []Attempt  `json:"attempts,omitempty" doc:"The last twenty"`
}

// Range is a number of occurrences, both ends included.
type Range struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Count int64     `json:"count"`
}

// Attempt is one try at a run.
type Attempt struct {
	Number     int        `json:"number"`
	Start      time.Time  `json:"start"`
	End        *time.Time `json:"end,omitempty" doc:"Absent while it runs"`
	StatusCode int        `json:"status_code,omitempty"`
	Error      string     `json:"error,omitempty"`
	Response   string     `json:"response_excerpt,omitempty" doc:"Only for roles that may see payloads"`
}

// DeadLetter is a dead run that was not redriven.
type DeadLetter struct {
	Run
	LastError     string          `json:"last_error,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"What was sent, where it is JSON; only for roles that may see it"`
	PayloadBase64 string          `json:"payload_base64,omitempty" doc:"Where it is not JSON"`
}

// Heartbeat is the body of a sign of life.
type Heartbeat struct {
	Attempt int `json:"attempt" required:"true" minimum:"1" doc:"As the header Myosin-Attempt said"`
}

// HeartbeatAnswer tells the target of a run how it stands.
type HeartbeatAnswer struct {
	LeaseUntil      time.Time `json:"lease_until" doc:"Send the next one well before"`
	CancelRequested bool      `json:"cancel_requested" doc:"Stop, and complete the run as failed"`
}

// Complete is the body that ends a run.
type Complete struct {
	Attempt int    `json:"attempt" required:"true" minimum:"1" doc:"As the header Myosin-Attempt said"`
	Outcome string `json:"outcome" required:"true" enum:"success,failure"`
	Message string `json:"message,omitempty" maxLength:"1024" doc:"Kept with the attempt"`
}

// Redrive is the body that repeats dead runs: those named, or those of a filter.
type Redrive struct {
	Runs   []string  `json:"runs,omitempty" maxItems:"100" doc:"Ids of dead runs; give these or a filter"`
	Tenant string    `json:"tenant,omitempty" maxLength:"64" doc:"Filter: the caller's tenant by default"`
	Job    string    `json:"job,omitempty" maxLength:"64" doc:"Filter: of one job"`
	From   time.Time `json:"from,omitzero" doc:"Filter: died then or later"`
	Until  time.Time `json:"until,omitzero" doc:"Filter: died before"`
	All    bool      `json:"all,omitempty" doc:"All of the tenant's, where neither job nor from nor until narrows it"`
	Cursor string    `json:"cursor,omitempty" maxLength:"2048" doc:"next_cursor of the answer before"`
	Limit  int       `json:"limit,omitempty" minimum:"1" maximum:"100" doc:"How many in this request; 100 by default"`
}

// RedriveAnswer says what became of one request; with a NextCursor there is more
// to do: send the same body with it.
type RedriveAnswer struct {
	Redriven   []Redriven `json:"redriven"`
	Failed     []Failed   `json:"failed"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// Redriven is a run and the one that repeats it.
type Redriven struct {
	Run string `json:"run"`
	As  string `json:"redriven_as"`
}

// Failed is a run that was not redriven.
type Failed struct {
	Run     string `json:"run"`
	Code    string `json:"code" doc:"As of a problem: not_found, conflict, unavailable …"`
	Message string `json:"message"`
}
