package jobsapi

import "time"

// PutTenant is the body that creates or replaces a tenant's record.
type PutTenant struct {
	Contact       *Notify            `json:"contact,omitempty" doc:"Told when a run dies whose job names nobody"`
	MaxConcurrent int                `json:"max_concurrent,omitempty" minimum:"0" maximum:"100000" doc:"Calls under way over the fleet; 0: no cap"`
	AllowRanges   []string           `json:"allow_ranges,omitempty" maxItems:"100" doc:"Private address ranges (CIDRs) that targets may be in"`
	AllowServices []string           `json:"allow_services,omitempty" maxItems:"100" doc:"Owning services that targets may be; a * at the end matches by prefix"`
	AllowTopics   []string           `json:"allow_topics,omitempty" maxItems:"100" doc:"SNS topic ARNs that targets may be; * stands for any text without colons"`
	Rates         map[string]float64 `json:"rates,omitempty" doc:"Calls per second over the fleet by target: host:…, group:…, queue:…, topic:…"`
}

// Tenant is a tenant's record as the API shows it.
type Tenant struct {
	ID string `json:"id"`
	PutTenant
	UpdatedAt time.Time `json:"updated_at"`
	Version   int64     `json:"version" doc:"The ETag"`
}

// CreateKey is the body that makes an API key.
type CreateKey struct {
	Tenant    string    `json:"tenant,omitempty" maxLength:"64" doc:"The caller's tenant by default; * is every tenant, for role admin only"`
	Role      string    `json:"role" required:"true" enum:"read,write,admin"`
	Name      string    `json:"name,omitempty" maxLength:"128" doc:"What uses it"`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"Absent: never"`
}

// Key is an API key without what makes it one.
type Key struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`
	Role      string     `json:"role" enum:"read,write,admin"`
	Name      string     `json:"name,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// NewKey is a key just made: the only time that it is shown.
type NewKey struct {
	Key
	Secret string `json:"key" doc:"The key itself; it is not shown again"`
}

// CreateSecret is the body that makes a signing secret.
type CreateSecret struct {
	Tenant         string    `json:"tenant,omitempty" maxLength:"64" doc:"The caller's tenant by default"`
	ExpireOthersIn *Duration `json:"expire_others_in,omitempty" pattern:"^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$" doc:"Ends the tenant's other secrets after so long: a rotation" example:"24h"`
}

// Secret is a signing secret without its bytes.
type Secret struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// NewSecret is a secret just made: the only time that it is shown.
type NewSecret struct {
	Secret
	Value string `json:"secret" doc:"whsec_…; it is not shown again"`
}

// AuditRecord is one change that somebody made.
type AuditRecord struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject" doc:"Id of the key, or subject of the token"`
	Action  string    `json:"action" example:"job.pause"`
	Object  string    `json:"object"`
	Detail  string    `json:"detail,omitempty" doc:"Names of what changed"`
}

// Forecast is what is due by minute.
type Forecast struct {
	Items []ForecastSeries `json:"items"`
}

// ForecastSeries is what is due of one service, a point for each minute.
type ForecastSeries struct {
	Service string          `json:"service"`
	Points  []ForecastPoint `json:"points"`
}

// ForecastPoint is a minute and what is due in it.
type ForecastPoint struct {
	Minute time.Time `json:"minute"`
	Jobs   int64     `json:"jobs"`
}
