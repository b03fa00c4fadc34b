package client_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// serve answers as the HTTP API does, over any Triggers.
func serve(t *testing.T, back client.Triggers) *client.HTTP {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any
		h, err := trigger.ParseHandle(strings.TrimPrefix(r.URL.Path, client.TriggersPath+"/"))
		if err == nil {
			switch r.Method {
			case http.MethodGet:
				out, err = back.Get(r.Context(), h)
			case http.MethodDelete:
				out, err = back.Cancel(r.Context(), h)
			case http.MethodPatch:
				var body client.RescheduleBody
				if err = json.NewDecoder(r.Body).Decode(&body); err == nil {
					out, err = back.Reschedule(r.Context(), h, body.Due)
				}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			p := client.ProblemOf(err)
			w.Header().Set("Content-Type", client.ProblemType)
			w.WriteHeader(p.Status)
			out = p
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(srv.Close)
	c, err := client.NewHTTP(srv.URL+"/", client.HTTPOptions{Client: srv.Client()})
	require.NoError(t, err)
	return c
}

func TestTheAPIAnswersAsTheTableDoes(t *testing.T) {
	d := newDesk(t, memstore.Options{})
	api := serve(t, d.Table)
	r := rowDue(time.Hour)
	_, err := api.Get(t.Context(), r.Handle())
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = api.Reschedule(t.Context(), r.Handle(), r.Due.Add(time.Minute))
	require.ErrorIs(t, err, client.ErrNotStored)

	require.NoError(t, insert(d.s, r))
	want, err := d.Get(t.Context(), r.Handle())
	require.NoError(t, err)
	got, err := api.Get(t.Context(), r.Handle())
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = api.Reschedule(t.Context(), r.Handle(), time.Now().AddDate(20, 0, 0))
	requireField(t, err, "due")
	moved, err := api.Reschedule(t.Context(), r.Handle(), r.Due.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, r.Due.Add(time.Minute), moved.Due)
	require.Equal(t, r.ID, moved.ID)

	result, err := api.Cancel(t.Context(), handle(t, moved.Handle))
	require.NoError(t, err)
	require.Equal(t, client.CancelResult{Outcome: client.OutcomeCancelled, State: "cancelled", Due: moved.Due}, result)
	_, err = api.Reschedule(t.Context(), handle(t, moved.Handle), r.Due)
	var conflict *client.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, client.ConflictError{State: "cancelled", Due: moved.Due}, *conflict)
}

func TestEveryErrorSurvivesTheWire(t *testing.T) {
	for _, want := range []error{
		client.ErrNotFound, client.ErrNotStored, client.ErrPaused, client.ErrUncertain, trigger.ErrHandle, registry.ErrUnknown,
	} {
		p := client.ProblemOf(errors.Join(errors.New("op"), want))
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", client.ProblemType+"; charset=utf-8")
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p)
		}))
		c, err := client.NewHTTP(srv.URL, client.HTTPOptions{Attempts: 1})
		require.NoError(t, err)
		_, err = c.Get(t.Context(), rowDue(0).Handle())
		require.ErrorIs(t, err, want)
		srv.Close()
	}
	p := client.ProblemOf(store.ErrThrottled)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	p = client.ProblemOf(errors.New("dial tcp 10.0.0.1: table myosin-triggers"))
	require.Equal(t, http.StatusInternalServerError, p.Status)
	require.NotContains(t, p.Error(), "10.0.0.1", "what went wrong inside is not told")
}

func TestTheAPIIsAskedAgainWhileItIsAway(t *testing.T) {
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"outcome":"cancelled","state":"cancelled","due":"2027-01-01T09:00:00Z"}`))
	}))
	defer srv.Close()
	c, err := client.NewHTTP(srv.URL, client.HTTPOptions{Authorize: func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer x")
		return nil
	}})
	require.NoError(t, err)
	got, err := c.Cancel(t.Context(), rowDue(0).Handle())
	require.NoError(t, err)
	require.Equal(t, client.OutcomeCancelled, got.Outcome)
	require.Equal(t, 3, calls)
}

func TestAStrangersAnswerIsNotTakenForTheAPIs(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"404 of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"code":"not_found"}`, http.StatusNotFound)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			c, err := client.NewHTTP(srv.URL, client.HTTPOptions{})
			require.NoError(t, err)
			_, err = c.Get(t.Context(), rowDue(0).Handle())
			require.Error(t, err)
			require.NotErrorIs(t, err, client.ErrNotFound)
		})
	}
	_, err := client.NewHTTP("ftp://x", client.HTTPOptions{})
	require.Error(t, err)
	_, err = client.NewHTTP("myosin.internal", client.HTTPOptions{})
	require.Error(t, err)
}

func TestASubmissionOverTheAPIIsTheOneInGo(t *testing.T) {
	b := newBed(t, nil, nil)
	submit := func(body string) (trigger.Trigger, error) {
		var s client.SubmitBody
		require.NoError(t, json.Unmarshal([]byte(body), &s))
		r, err := s.Request()
		if err != nil {
			return trigger.Trigger{}, err
		}
		if err := b.ScheduleBatch(t.Context(), []client.Request{r})[0].Err; err != nil {
			return trigger.Trigger{}, err
		}
		return b.submissions(t, b.inbound)[0], nil
	}
	got, err := submit(`{"service":"payments","due":"` + time.Now().Add(time.Hour).Format(time.RFC3339) +
		`","payload":{"n": 1},"key":"k","name":"remind","headers":{"a":"b"}}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(got.Payload))
	require.Equal(t, trigger.KeyedID("payments", "", "k"), got.ID)
	got, err = submit(`{"service":"payments","delay_ms":1000,"payload_base64":"AAE="}`)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1}, got.Payload)
	for body, field := range map[string]string{
		`{"service":"payments","delay_ms":-1}`:                             "delay_ms",
		`{"service":"payments","delay_ms":9223372036854775807}`:            "delay_ms",
		`{"service":"payments","delay_ms":1,"due":"2030-01-01T00:00:00Z"}`: "due",
		`{"service":"payments","delay_ms":1,"key":"k"}`:                    "submitted",
		`{"service":"payments","payload":1,"payload_base64":"AAE="}`:       "payload_base64",
		`{"service":"nobody"}`:                                             "service",
	} {
		_, err := submit(body)
		requireField(t, err, field)
	}
}

func TestACallNeedsTriggersAndAHandle(t *testing.T) {
	b := newBed(t, nil, nil)
	_, err := b.Get(t.Context(), "x")
	require.ErrorIs(t, err, client.ErrNoTriggers)
	d := newDesk(t, memstore.Options{})
	b = newBed(t, nil, func(o *client.Options) { o.Triggers = d.Table })
	_, err = b.Get(t.Context(), "x")
	require.ErrorIs(t, err, trigger.ErrHandle)
	job, err := b.Schedule(t.Context(), "payments", "x", client.In(time.Minute))
	require.NoError(t, err)
	got, err := b.Cancel(t.Context(), job.Handle)
	require.NoError(t, err)
	require.Equal(t, client.OutcomeCancelled, got.Outcome)
	_, err = b.Reschedule(t.Context(), job.Handle, job.Due.Add(time.Minute))
	var conflict *client.ConflictError
	require.ErrorAs(t, err, &conflict)
}
