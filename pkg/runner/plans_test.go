package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestAPlanIsMadeOnceForEachVersionOfAJob(t *testing.T) {
	var p plans
	j := job.Job{ID: trigger.NewID(), Version: 1, Spec: job.Spec{Schedule: job.Timing{Cron: "0 9 * * *", Zone: "Asia/Ho_Chi_Minh"}}}
	first, err := p.of(&j)
	require.NoError(t, err)
	again, err := p.of(&j)
	require.NoError(t, err)
	require.Same(t, first, again)
	j.Version, j.Schedule.Cron = 2, "0 10 * * *"
	edited, err := p.of(&j)
	require.NoError(t, err)
	require.NotSame(t, first, edited)
	j.Version, j.Schedule.Zone = 3, "nowhere"
	_, err = p.of(&j)
	require.Error(t, err)
}
