package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// RunID names a run: "<job>_<nominal>-<generation>" for an occurrence of the
// schedule, with a suffix for what is none:
//
//	-m<word>   run by hand, beside the schedule
//	-r<n>      the n-th redrive of the run before the suffix
//	-n<n>      the notice of that run's end, after its n-th redrive
//	-g         the record of what a clock's gap swallowed
//
// nominal is epoch milliseconds in 15 digits, so the part behind the job's id
// sorts by time; generation is decimal. Everything about an occurrence follows
// from its id, so making it twice makes one.
type RunID string

// ErrRunID is what a text that is no run id is refused with.
var ErrRunID = errors.New("not a run id")

const (
	nominalDigits = 15
	maxRunID      = 160
)

// NewRunID returns the id of a job's occurrence.
func NewRunID(job trigger.ID, generation int64, nominal time.Time) RunID {
	return RunID(fmt.Sprintf("%s_%0*d-%d", job, nominalDigits, nominal.UnixMilli(), generation))
}

// Manual returns the id of a run made by hand; word is 1 to 32 letters or digits
// that tell it from another of the same millisecond.
func (id RunID) Manual(word string) RunID { return id + "-m" + RunID(word) }

// Gap returns the id of the record of a clock's gap that ends at the occurrence.
func (id RunID) Gap() RunID { return id + "-g" }

// Redriven returns the id of the run that repeats this one.
func (id RunID) Redriven() RunID {
	s := string(id)
	if i := strings.LastIndex(s, "-r"); i > 0 {
		if n, err := strconv.Atoi(s[i+2:]); err == nil {
			return RunID(s[:i] + "-r" + strconv.Itoa(n+1))
		}
	}
	return id + "-r1"
}

// Notice returns the id of the run that tells the owner of this one's end.
func (id RunID) Notice() RunID { return id + "-n" }

// ParseRunID checks a run id and returns it with its parts.
func ParseRunID(s string) (RunID, RunParts, error) {
	var p RunParts
	jobID, sort, ok := strings.Cut(s, "_")
	if !ok || len(s) > maxRunID {
		return "", p, ErrRunID
	}
	var err error
	if p.Job, err = trigger.ParseID(jobID); err != nil || p.Job.String() != jobID {
		return "", p, ErrRunID
	}
	p.Sort = sort
	nominal, rest, ok := strings.Cut(sort, "-")
	if !ok || len(nominal) != nominalDigits || !digits(nominal) {
		return "", p, ErrRunID
	}
	ms, err := strconv.ParseInt(nominal, 10, 64)
	if err != nil {
		return "", p, ErrRunID
	}
	generation, suffix, _ := strings.Cut(rest, "-")
	if p.Generation, err = strconv.ParseInt(generation, 10, 64); err != nil || !digits(generation) || p.Generation < 1 {
		return "", p, ErrRunID
	}
	for _, c := range suffix {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "", p, ErrRunID
		}
	}
	p.Nominal, p.Suffix = time.UnixMilli(ms).UTC(), suffix
	return RunID(s), p, nil
}

func digits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// RunParts is what a run id says.
type RunParts struct {
	Job        trigger.ID
	Sort       string // what follows the job's id: the run's key within its job
	Nominal    time.Time
	Generation int64
	Suffix     string // without its first '-'; empty for an occurrence
}

// Job returns the id of the run's job; the zero id where id is none of
// [NewRunID] and its methods.
func (id RunID) Job() trigger.ID {
	_, p, err := ParseRunID(string(id))
	if err != nil {
		return trigger.ID{}
	}
	return p.Job
}

// Sort returns the run's key within its job.
func (id RunID) Sort() string {
	_, sort, _ := strings.Cut(string(id), "_")
	return sort
}

// TriggerID returns the id by which consumers of a queue know the run: UUIDv5
// of the run id.
func (id RunID) TriggerID() trigger.ID { return trigger.KeyedID("myosin-run", "", string(id)) }
