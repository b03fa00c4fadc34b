package jobsapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem is an error of the API, after RFC 9457: what a [Client] returns for
// every answer that is none of 2xx. Find it with errors.As.
type Problem struct { //nolint:errname // it is called so on the wire.
	Title  string         `json:"title,omitempty"`
	Status int            `json:"status,omitempty"`
	Detail string         `json:"detail,omitempty"`
	Code   string         `json:"code,omitempty" doc:"What a program branches on"`
	Errors []ProblemField `json:"errors,omitempty"`
	State  string         `json:"state,omitempty" doc:"Of the run or trigger that stood in the way"`
}

// ProblemField is one field at fault.
type ProblemField struct {
	Message  string `json:"message"`
	Location string `json:"location"`
}

// Error names the status, what is wrong and each field at fault.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", p.Status)
	if p.Detail != "" {
		b.WriteString(" " + p.Detail)
	} else {
		b.WriteString(" " + p.Title)
	}
	for i, e := range p.Errors {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0] + e.Location + ": " + e.Message)
	}
	return b.String()
}

// ClientOptions configure a [Client].
type ClientOptions struct {
	// HTTP makes the requests. Default: one with a timeout of 30 s and no
	// redirects. A given one keeps its own settings.
	HTTP *http.Client
	// Authorize adds credentials to each request. Default: none.
	Authorize func(*http.Request) error
	// Attempts bounds how often a call that may be repeated is made while the API
	// is unreachable or answers 429, 502, 503 or 504. Default 4, over about a
	// second if each fails at once.
	Attempts int
	// Wait waits before another attempt; nil: a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

const (
	clientTimeout = 30 * time.Second
	clientBackoff = 200 * time.Millisecond
	clientWaitMax = 5 * time.Second
	maxAnswer     = 64 << 20 // a page of dead letters holds up to 100 payloads
)

// Client calls the HTTP API.
type Client struct {
	base string
	o    ClientOptions
}

// NewClient returns a client of the API at baseURL, such as "http://127.0.0.1:8080".
func NewClient(baseURL string, o ClientOptions) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, errors.New("jobs client: base URL: cannot be read")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("jobs client: base URL %q: want http(s)://host[/path]", u.Redacted())
	case o.Attempts < 0:
		return nil, fmt.Errorf("jobs client: option Attempts is %d; want 0 (default) or more", o.Attempts)
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{
			Timeout:       clientTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	return &Client{base: strings.TrimRight(u.String(), "/"), o: o}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request is a call to make.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	repeat       bool // it may be made twice
}

// call makes a request, several times where that is harmless, and decodes the
// answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	attempts := 1
	if r.repeat {
		attempts = c.o.Attempts
	}
	var err error
	var after time.Duration
	for try := range attempts {
		if try > 0 && c.o.Wait(ctx, min(max(clientBackoff<<min(try-1, 8), after), clientWaitMax)) != nil {
			return err
		}
		var again bool
		if again, after, err = c.once(ctx, &r, target, body, out); !again {
			return err
		}
	}
	return err
}

// once makes one request; again tells whether a repeat may help, and after what.
func (c *Client) once(ctx context.Context, r *request, target string, body []byte, out any) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	for k, v := range r.header {
		req.Header[k] = slices.Clone(v)
	}
	req.Header.Set("Accept", "application/json, "+ProblemType)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Authorize != nil {
		if err := c.o.Authorize(req); err != nil {
			return false, 0, fmt.Errorf("authorize: %w", err)
		}
	}
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		return ctx.Err() == nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return ctx.Err() == nil, 0, fmt.Errorf("read answer: %w", err)
	case len(answer) > maxAnswer:
		return false, 0, errors.New("answer is too large")
	case resp.StatusCode/100 == 2:
		if out == nil {
			return false, 0, nil
		}
		if err := json.Unmarshal(answer, out); err != nil {
			return false, 0, fmt.Errorf("answer is not understood: %w", err)
		}
		return false, 0, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		after = time.Duration(min(n, 3600)) * time.Second
	}
	return again, after, problemIn(resp, answer)
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
		p.Title = http.StatusText(resp.StatusCode)
	}
	return p
}

// NewIdempotencyKey returns a key of 26 random characters.
func NewIdempotencyKey() string { return rand.Text() }
