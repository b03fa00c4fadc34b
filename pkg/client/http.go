package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// HTTPOptions configure an [HTTP].
type HTTPOptions struct {
	// Client makes the requests. Default: one with a timeout of 30 s and no
	// redirects. A given one keeps its own settings.
	Client *http.Client
	// Authorize adds credentials to each request. Default: none.
	Authorize func(*http.Request) error
	// Attempts bounds how often a call is made while the API is unreachable or
	// answers 429, 502, 503 or 504. Every call may be repeated. Default 4, over
	// about a second if each fails at once.
	Attempts int
}

const (
	httpTimeout    = 30 * time.Second
	httpBackoff    = 200 * time.Millisecond
	httpBackoffMax = 5 * time.Second
	maxAnswer      = 4 << 20 // a trigger with the largest payload takes about 360 KiB
)

// HTTP looks up, moves and cancels triggers through the HTTP API, and asks it
// for the partition counts.
type HTTP struct {
	base string
	o    HTTPOptions
}

var (
	_ Triggers   = (*HTTP)(nil)
	_ Partitions = (*HTTP)(nil)
)

// NewHTTP returns an HTTP for the API at baseURL, such as "https://myosin.internal".
func NewHTTP(baseURL string, o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client http: base URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("client http: base URL %q: want http(s)://host[/path]", u.Redacted())
	case o.Attempts < 0:
		return nil, fmt.Errorf("client http: option Attempts is %d; want 0 (default) or more", o.Attempts)
	}
	if o.Client == nil {
		o.Client = &http.Client{
			Timeout:       httpTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	return &HTTP{base: strings.TrimRight(u.String(), "/"), o: o}, nil
}

// Cancel implements [Triggers].
func (c *HTTP) Cancel(ctx context.Context, h trigger.Handle) (CancelResult, error) {
	var out CancelResult
	if err := c.call(ctx, http.MethodDelete, pathOf(h), nil, &out); err != nil {
		return CancelResult{}, fmt.Errorf("cancel %s: %w", h.ID, err)
	}
	return out, nil
}

// Reschedule implements [Triggers].
func (c *HTTP) Reschedule(ctx context.Context, h trigger.Handle, due time.Time) (Scheduled, error) {
	var out Scheduled
	if err := c.call(ctx, http.MethodPatch, pathOf(h), RescheduleBody{Due: wholeMillis(due)}, &out); err != nil {
		return Scheduled{}, fmt.Errorf("reschedule %s: %w", h.ID, err)
	}
	return out, nil
}

// Get implements [Triggers].
func (c *HTTP) Get(ctx context.Context, h trigger.Handle) (TriggerView, error) {
	var out TriggerView
	if err := c.call(ctx, http.MethodGet, pathOf(h), nil, &out); err != nil {
		return TriggerView{}, fmt.Errorf("get %s: %w", h.ID, err)
	}
	return out, nil
}

// Epochs implements [Partitions].
func (c *HTTP) Epochs(ctx context.Context) (trigger.Epochs, error) {
	var out PartitionsView
	err := c.call(ctx, http.MethodGet, PartitionsPath, nil, &out)
	if errors.Is(err, ErrNotFound) { // that says nothing of a trigger here
		err = errors.New("the API has no " + PartitionsPath + ": give Options.Partitions")
	}
	if err != nil {
		return nil, fmt.Errorf("ask for partition counts: %w", err)
	}
	epochs := make(trigger.Epochs, len(out.Epochs))
	for i, e := range out.Epochs {
		epochs[i] = trigger.Epoch(e)
	}
	if err := epochs.Validate(); err != nil {
		return nil, fmt.Errorf("ask for partition counts: answer is not understood: %w", err)
	}
	return epochs, nil
}

func pathOf(h trigger.Handle) string { return TriggersPath + "/" + h.String() }

func (c *HTTP) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	var err error
	for try := range c.o.Attempts {
		if try > 0 && pause(ctx, try, httpBackoff, httpBackoffMax) != nil {
			return err
		}
		var again bool
		if again, err = c.once(ctx, method, c.base+path, body, out); !again {
			return err
		}
	}
	return err
}

// once makes one request; again tells whether a repeat may help.
func (c *HTTP) once(ctx context.Context, method, target string, body []byte, out any) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "application/json, "+ProblemType)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Authorize != nil {
		if err := c.o.Authorize(req); err != nil {
			return false, fmt.Errorf("authorize: %w", err)
		}
	}
	resp, err := c.o.Client.Do(req)
	if err != nil {
		return ctx.Err() == nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return ctx.Err() == nil, fmt.Errorf("read answer: %w", err)
	case len(answer) > maxAnswer:
		return false, errors.New("answer is too large")
	case resp.StatusCode/100 == 2:
		if err := json.Unmarshal(answer, out); err != nil {
			return false, fmt.Errorf("answer is not understood: %w", err)
		}
		return false, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, problemIn(resp, answer).err()
}

// problemIn reads the problem of an answer, or makes one of its status.
func problemIn(resp *http.Response, answer []byte) *Problem {
	p := &Problem{}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != ProblemType || json.Unmarshal(answer, p) != nil {
		p = &Problem{}
	}
	p.Status = resp.StatusCode
	if p.Title == "" && p.Detail == "" {
		p.Title = resp.Status
	}
	return p
}
