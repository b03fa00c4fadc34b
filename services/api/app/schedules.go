package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

type previewInput struct{ Body body[jobsapi.Preview] }

type previewOutput struct{ Body jobsapi.PreviewAnswer }

func (m *managed) registerSchedules(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "preview-schedule", Method: http.MethodPost, Path: jobsapi.PreviewPath,
		Tags: []string{"schedules"}, Summary: "Tell when a schedule fires; creates nothing",
	}), m.preview)
}

const defaultPreview = 5

func (m *managed) preview(_ context.Context, in *previewInput) (*previewOutput, error) {
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	t, err := b.Schedule.Timing(b.DST)
	if err == nil {
		err = checkTiming(&t)
	}
	from, n := m.o.Now(), b.Count
	if !b.From.IsZero() {
		if from = b.From; from.Year() < 2000 || from.Year() > 2200 {
			err = errors.Join(err, fieldError("from", "want a time of the years 2000 to 2200"))
		}
	}
	if err != nil {
		return nil, problemOf(err)
	}
	if n == 0 {
		n = defaultPreview
	}
	out := &previewOutput{Body: jobsapi.PreviewAnswer{TZ: t.Zone, FireTimes: []time.Time{}, Warnings: []jobsapi.Warning{}}}
	if !t.Recurs() {
		out.Body.TZ = job.DefaultZone
		if t.At.After(from) {
			out.Body.FireTimes = append(out.Body.FireTimes, t.At)
		}
		return out, nil
	}
	out.Body.FireTimes = fireTimes(&t, from, n)
	if schedule, err := t.Compile(); err == nil {
		out.Body.Warnings = append(out.Body.Warnings, schedule.Warnings(from)...)
	}
	return out, nil
}

// checkTiming reports what is wrong with a recurring schedule.
func checkTiming(t *job.Timing) error {
	if !t.Recurs() {
		return nil
	}
	var errs []error
	if _, err := cron.Parse(t.Cron); err != nil {
		errs = append(errs, fieldError("schedule.expr", "%v", err))
	}
	if _, err := cron.LoadZone(t.Zone); err != nil {
		errs = append(errs, fieldError("schedule.tz", "%v", err))
	}
	if err := t.Policy.Validate(); err != nil {
		errs = append(errs, fieldError("dst", "%v", err))
	}
	return errors.Join(errs...)
}
