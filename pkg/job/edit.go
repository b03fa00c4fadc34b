package job

import "time"

// Edit is a change of a job that raises its generation.
type Edit string

// The edits.
const (
	Pause    Edit = "pause"    // active → paused
	Resume   Edit = "resume"   // paused → active
	Schedule Edit = "schedule" // new fire times, active or paused
	Delete   Edit = "delete"   // active or paused → deleted
)

// Apply returns the job's status and generation after the edit, which is the
// generation before plus one. false: the edit changes nothing (pausing what is
// paused) or the job is deleted; both stay as they were.
func (e Edit) Apply(status JobStatus, generation int64) (JobStatus, int64, bool) {
	next := status
	switch {
	case status != JobIsActive && status != JobIsPaused:
		return status, generation, false
	case e == Pause && status == JobIsActive:
		next = JobIsPaused
	case e == Resume && status == JobIsPaused:
		next = JobIsActive
	case e == Delete:
		next = JobIsDeleted
	case e == Schedule:
	default:
		return status, generation, false
	}
	return next, generation + 1, true
}

// Edited returns the run after its job's edit: one that never began is SKIPPED
// by a pause and CANCELLED by any other edit; one in RETRY is CANCELLED by a
// deletion only; one that runs goes on, after a deletion without another
// attempt; a final one stays.
func (r Run) Edited(now time.Time, e Edit) Run {
	switch {
	case r.State == Scheduled && e == Pause:
		r.State, r.Reason = Skipped, "paused"
	case r.State == Scheduled:
		r.State, r.Reason = Cancelled, "job: "+string(e)
	case r.State == Retrying && e == Delete:
		r.State, r.Reason = Cancelled, "job: "+string(e)
	case r.State == Running && e == Delete:
		r.CancelRequested = true
	}
	return r.final(now)
}
