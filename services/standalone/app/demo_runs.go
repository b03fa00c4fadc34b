package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// demoRuns makes a job of the managed layer over the API, and shows its target
// called, the failed attempt tried again, and the run's history.
func (s *process) demoRuns(ctx context.Context) error {
	api, err := jobsapi.NewClient("http://"+s.o.APIAddr, jobsapi.ClientOptions{
		HTTP: &http.Client{Timeout: demoLimit, Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		return err
	}
	s.show.printf("\nA job that calls an HTTP endpoint, which fails at first.\n")
	s.show.begin()
	base, most := jobsapi.Duration(500*time.Millisecond), jobsapi.Duration(time.Second)
	j, err := api.CreateJob(ctx, &jobsapi.CreateJob{
		Name: "webhook", Schedule: jobsapi.Schedule{Type: "once", RunAt: s.p.Clock.Now().Add(time.Second)},
		Target:  jobsapi.Target{Type: "http", URL: s.target.url(flakyPath), Headers: map[string]string{demoHeader: "1"}},
		Payload: []byte(`{"greeting":"hello, webhook"}`),
		Retry:   &jobsapi.Retry{MaxAttempts: 3, Base: base, Max: most},
	}, "")
	if err != nil {
		return fmt.Errorf("create job: %w", err)
	}
	s.show.event("created", "webhook", "due in 1 s, up to 3 attempts")
	for {
		select {
		case c := <-s.target.called:
			if c.run != j.NextRunID {
				continue // of an earlier start, with a data directory
			}
			s.show.event("called", "webhook", fmt.Sprintf("attempt %s, answered %d", c.attempt, c.code))
			if c.code != http.StatusOK {
				continue
			}
		case <-ctx.Done():
			return fmt.Errorf("the target was not called: %w", ctx.Err())
		}
		break
	}
	for {
		run, err := api.Run(ctx, j.NextRunID)
		switch {
		case err != nil:
			return err
		case run.Status == "SUCCEEDED":
			s.show.printf("\nDone: the run %s after %d attempts.\n", run.Status, len(run.Attempts))
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
