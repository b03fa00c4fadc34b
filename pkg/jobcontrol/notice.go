package jobcontrol

import (
	"net/http"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/target"
)

// noticeTimeout bounds the call that tells an owner.
const noticeTimeout = 10 * time.Second

// noticeCall is the call that tells an owner of a dead run. link returns where
// the run is shown; nil: nowhere.
func noticeCall(j *job.Job, r job.Run, to job.Notify, link func(job.RunID) string) job.Call {
	n := target.Notice{
		Tenant: j.Tenant, Job: j.ID.String(), JobName: j.Name, Run: string(r.ID), Reason: r.Reason,
		Attempts: r.Attempt, At: r.Ended,
	}
	if link != nil {
		n.URL = link(r.ID)
	}
	if to.Topic != "" {
		return job.Call{Target: job.Target{Type: job.TargetTopic, ARN: to.Topic}, Payload: n.JSON()}
	}
	return job.Call{
		Target: job.Target{
			Type: job.TargetHTTP, URL: to.Webhook, Method: http.MethodPost, Timeout: noticeTimeout,
			Headers: map[string]string{"Content-Type": "application/json"},
		},
		Payload: n.Slack(),
	}
}
