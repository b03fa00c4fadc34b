package sqsqueue_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fake speaks just enough of the protocol to answer what a test tells it to.
type fake struct {
	*httptest.Server

	mu    sync.Mutex
	calls []call
}

type call struct {
	Op      string `json:"-"`
	Raw     string `json:"-"`
	Entries []struct {
		ID           string `json:"Id"`
		MessageBody  string
		DelaySeconds *int
	}
	WaitTimeSeconds *int
}

// newFake starts a fake. answer gets each call and its number from 1, and
// returns a status and a body; status 0 hangs up without an answer.
func newFake(t *testing.T, answer func(n int, c call) (int, string)) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		c := call{Op: op, Raw: string(raw)}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		f.calls = append(f.calls, c)
		n := len(f.calls)
		f.mu.Unlock()
		status, body := answer(n, c)
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) seen() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// sent answers a send with success but for the entries of the given bodies.
func sent(c call, failed map[string]string) (int, string) {
	var ok, bad []string
	for _, e := range c.Entries {
		if code := failed[e.MessageBody]; code != "" {
			code, fault, _ := strings.Cut(code, "/")
			bad = append(bad, fmt.Sprintf(`{"Id":%q,"SenderFault":%v,"Code":%q,"Message":"m"}`, e.ID, fault == "sender", code))
			continue
		}
		ok = append(ok, fmt.Sprintf(`{"Id":%q,"MessageId":"m"}`, e.ID))
	}
	return 200, fmt.Sprintf(`{"Successful":[%s],"Failed":[%s]}`, strings.Join(ok, ","), strings.Join(bad, ","))
}

func apiError(code string) string { return fmt.Sprintf(`{"__type":%q,"message":"m"}`, code) }
