package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// guard keeps web pages that a developer has open from using the API: requests
// from other origins, and, where it runs without keys, hosts that are names of
// other sites made to resolve to this machine (DNS rebinding).
func guard(local bool, next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(http.StatusForbidden, "cross_origin", "requests from pages of other origins are refused"))
	}))
	inner := cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local && !loopback(r.Host) {
			writeProblem(w, newProblem(http.StatusForbidden, "host",
				"the API runs without keys and answers to localhost and loopback addresses only"))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// loopback reports whether hostport names this machine.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err //nolint:wrapcheck // the caller's own writer.
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// maxLoggedID bounds what of a path is logged: ids of runs are the longest.
const maxLoggedID = 160

// observe logs and counts each request, and turns a panic into a problem.
func (a *api) observe(m *metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself is thrown.
				a.log.ErrorContext(r.Context(), "panic in a request", telemetry.KeyReason, fmt.Sprint(v), "stack", string(debug.Stack()))
				if rec.status == 0 {
					writeProblem(rec, newProblem(http.StatusInternalServerError, client.CodeInternal, ""))
				}
			}
			took := time.Since(began)
			// Bounded: the pattern that matched, never the path.
			route := strings.TrimPrefix(r.Pattern, r.Method+" ")
			if route == "" {
				route = "none"
			}
			m.observe(r.Method, route, rec.status, took)
			attrs := []slog.Attr{
				slog.String("method", r.Method), slog.String("route", route), slog.Int("status", rec.status),
				slog.Duration(telemetry.KeyDuration, took), slog.Int("bytes", rec.bytes),
			}
			if id := r.PathValue("id"); id != "" && len(id) <= maxLoggedID {
				attrs = append(attrs, slog.String("id", id))
			}
			if h, err := trigger.ParseHandle(r.PathValue("handle")); err == nil {
				attrs = append(attrs, slog.String(telemetry.KeyTrigger, h.ID.String()), slog.String(telemetry.KeyService, h.Service))
			}
			a.log.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
		}()
		next.ServeHTTP(rec, r)
	})
}
