package awsclient

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// addHooks adds the observers to one operation's stack. now is the clock that
// observe's times are read from.
func addHooks(s *middleware.Stack, now func() time.Time, observe func(date, sent, received time.Time),
	meter func(service, operation string, attempt bool, err error, took time.Duration),
) error {
	if meter != nil {
		if err := s.Initialize.Add(middleware.InitializeMiddlewareFunc("MyosinMeterCall",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				start := time.Now()
				out, md, err := next.HandleInitialize(ctx, in)
				meter(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), false, err, time.Since(start))
				return out, md, err
			}), middleware.Before); err != nil {
			return err
		}
		// First in Deserialize: it sees what the service's error was parsed into.
		if err := s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MyosinMeterAttempt",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				start := time.Now()
				out, md, err := next.HandleDeserialize(ctx, in)
				meter(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), true, err, time.Since(start))
				return out, md, err
			}), middleware.Before); err != nil {
			return err
		}
	}
	// Last in Deserialize: next to the wire, once per attempt.
	return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MyosinWire",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			if f := flightOf(ctx); f != nil {
				f.reached.Store(true)
			}
			if err := plainBody(&in); err != nil {
				return middleware.DeserializeOutput{}, middleware.Metadata{}, err
			}
			if observe == nil {
				return next.HandleDeserialize(ctx, in)
			}
			sent := now()
			out, md, err := next.HandleDeserialize(ctx, in)
			received := now()
			if resp, ok := out.RawResponse.(*smithyhttp.Response); ok && resp != nil {
				if date, perr := http.ParseTime(resp.Header.Get("Date")); perr == nil {
					observe(date, sent, received)
				}
			}
			return out, md, err
		}), middleware.After)
}

// plainBody gives the request a body that net/http can handle better.
//
// The SDK's own (smithy-go 1.28) has a WriteTo that answers io.EOF once closed,
// and is closed as soon as the answer begins. An answer that is faster than
// net/http's last look at the body then looks like a failed write, the
// connection is torn down, and an answer of known outcome is lost. And without
// GetBody a request cannot move to a new connection when an idle one proves
// dead before anything was written.
func plainBody(in *middleware.DeserializeInput) error {
	req, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return nil
	}
	body, ok := req.GetStream().(*bytes.Reader)
	if !ok || int64(body.Len()) != body.Size() {
		return nil
	}
	req, err := req.SetStream(io.NewSectionReader(body, 0, body.Size()))
	if err != nil {
		return err
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(body, 0, body.Size())), nil }
	in.Request = req
	return nil
}

// Flight tells how far a call came on its way to the service: see [Track]. It
// needs a configuration made by [Load] and an HTTP client over net/http.
type Flight struct {
	reached    atomic.Bool // the HTTP client was called
	asked, got atomic.Bool // it asked for a connection; it got one
}

type flightKey struct{}

func flightOf(ctx context.Context) *Flight {
	f, _ := ctx.Value(flightKey{}).(*Flight)
	return f
}

// Track returns a context for one call of an SDK client, and its Flight.
func Track(ctx context.Context) (context.Context, *Flight) {
	f := &Flight{}
	ctx = context.WithValue(ctx, flightKey{}, f)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { f.reached.Store(true); f.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { f.got.Store(true) },
	}), f
}

// Unsent reports whether a failed call surely wrote nothing to a connection: it
// failed before the HTTP client was called (credentials, signing, context), or
// while that was getting a connection (DNS, dial, TLS). Once there is a
// connection it answers false, even if nothing was written in the end: the
// write runs beside the call.
func (f *Flight) Unsent() bool {
	if !f.reached.Load() {
		return true
	}
	return f.asked.Load() && !f.got.Load()
}
