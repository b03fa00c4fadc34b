// Package endpoint is the null endpoint as runs use it: in a process of its own,
// asked over its own interface. It holds no state and may be used concurrently.
package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
)

// Command is the argument by which this program becomes the endpoint.
const Command = "endpoint"

// Start starts one with flags, on a free port; its sinks are on. Its base URL is
// what it said when it was ready.
func Start(ctx context.Context, flags ...string) (*child.Process, error) {
	return child.Start(ctx, child.Options{
		Name: "endpoint", Ready: "bench-endpoint ",
		Args: append([]string{Command, "--addr", "127.0.0.1:0", "--stdin", "--sink"}, flags...),
	})
}

// Ask asks an endpoint's own interface, such as GET /_stats.
func Ask(ctx context.Context, method, url string, into any) error {
	if err := ask(ctx, method, url, into); err != nil {
		return fmt.Errorf("ask the endpoint: %w", err)
	}
	return nil
}

func ask(ctx context.Context, method, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err //nolint:wrapcheck // Ask does.
	}
	var client http.Client
	resp, err := client.Do(req)
	if err != nil {
		return err //nolint:wrapcheck // as above.
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err //nolint:wrapcheck // as above.
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into) //nolint:wrapcheck // as above.
}
