package runner

import (
	"sync"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// maxPlans bounds the memory of plans; beyond, all are forgotten and made again.
const maxPlans = 10_000

// plans remembers the plans of jobs: making one parses an expression and reads a
// zone from the disk, for every run of a job that has not changed.
type plans struct {
	mu sync.Mutex
	m  map[trigger.ID]planned
}

type planned struct {
	version int64 // of the job's definition
	plan    *job.Plan
}

// of returns a job's plan.
func (p *plans) of(j *job.Job) (*job.Plan, error) {
	p.mu.Lock()
	had, ok := p.m[j.ID]
	p.mu.Unlock()
	if ok && had.version == j.Version {
		return had.plan, nil
	}
	plan, err := j.Plan()
	if err != nil || !j.Schedule.Recurs() {
		return plan, err // one that runs once is not asked for again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil || len(p.m) >= maxPlans {
		p.m = make(map[trigger.ID]planned)
	}
	p.m[j.ID] = planned{version: j.Version, plan: plan}
	return plan, nil
}
