package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

// answer is what the API says to one request. A status of 0 is a lost connection.
type answer struct {
	status int
	body   string
}

func ok(body string) answer { return answer{http.StatusOK, body} }

func problem(status int, body string) answer { return answer{status, body} }

// apiRig is a command line beside an API that says what a test wants, within a
// bubble of testing/synctest: its clock starts at 2000-01-01T00:00:00Z.
type apiRig struct {
	t       *testing.T
	answers map[string][]answer // by method and URI; the last one is repeated
	asked   []string            // method, URI and body of each request
	headers []http.Header
	env     map[string]string
	host    cli.Host
}

func inBubble(t *testing.T, fn func(t *testing.T, r *apiRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(t, &apiRig{t: t, answers: map[string][]answer{}, env: map[string]string{}})
	})
}

func (r *apiRig) says(request string, answers ...answer) *apiRig {
	r.answers[request] = answers
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *apiRig) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	name := req.Method + " " + req.URL.RequestURI()
	r.asked = append(r.asked, strings.TrimSpace(name+" "+string(body)))
	r.headers = append(r.headers, req.Header)
	list := r.answers[name]
	if len(list) == 0 {
		r.t.Errorf("unexpected request: %s", name)
		return nil, io.ErrUnexpectedEOF
	}
	if len(list) > 1 {
		r.answers[name] = list[1:]
	}
	if list[0].status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if list[0].status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(list[0].status)
	_, _ = io.WriteString(w, list[0].body)
	return w.Result(), nil
}

func (r *apiRig) run(args ...string) result {
	r.t.Helper()
	return r.runIn(r.t.Context(), args...)
}

func (r *apiRig) runIn(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	h := r.host
	h.Out, h.Err, h.Transport = &out, &errs, r
	if h.In == nil {
		h.In = strings.NewReader("")
	}
	h.Env = func(name string) (string, bool) {
		v, ok := r.env[name]
		return v, ok
	}
	r.asked, r.headers = nil, nil
	code := cli.Run(ctx, h, args)
	return result{t: r.t, code: code, out: out.String(), err: errs.String()}
}

// prints asserts the whole output of a command that succeeded.
func (r result) prints(want string) result {
	r.t.Helper()
	r.is(cli.ExitOK, "")
	require.Equal(r.t, strings.TrimPrefix(want, "\n"), r.out)
	return r
}
