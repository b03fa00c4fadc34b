package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	flushTimeout = 8 * time.Second
	flushPoll    = 10 * time.Millisecond
)

// flush waits until the snapshots on disk hold everything. kumo writes them some
// time after a change and offers no call for it: so make a change that changes
// nothing, and wait for the file. Twice, since the first write seen may be of a
// snapshot taken before.
func (e *Engine) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var errs []error
	for name, touch := range map[string]func(context.Context) (bool, error){"sqs": e.touchQueues, "dynamodb": e.touchTables} {
		path := filepath.Join(e.o.DataDir, name+".json")
		for range 2 {
			before := written(path)
			touched, err := touch(ctx)
			if err == nil && touched {
				err = changed(ctx, path, before)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("embedded: the newest data of %s may not be on disk: %w", name, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

func written(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func changed(ctx context.Context, path string, before time.Time) error {
	tick := time.NewTicker(flushPoll)
	defer tick.Stop()
	for written(path).Equal(before) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// touchQueues marks the queues as changed; false where there are none.
func (e *Engine) touchQueues(ctx context.Context) (bool, error) {
	var list struct{ QueueUrls []string }
	if err := e.call(ctx, "AmazonSQS.ListQueues", map[string]any{}, &list); err != nil || len(list.QueueUrls) == 0 {
		return false, err
	}
	return true, e.call(ctx, "AmazonSQS.SetQueueAttributes", map[string]any{
		"QueueUrl": list.QueueUrls[0], "Attributes": map[string]string{},
	}, nil)
}

// touchTables marks the tables as changed, by a tag of none of them.
func (e *Engine) touchTables(ctx context.Context) (bool, error) {
	return true, e.call(ctx, "DynamoDB_20120810.TagResource", map[string]any{
		"ResourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/none",
		"Tags":        []map[string]string{{"Key": "flush", "Value": "1"}},
	}, nil)
}

// call makes one call to kumo itself: by then the front is closed.
func (e *Engine) call(ctx context.Context, target string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.backend.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", target)
	resp, err := e.conns.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", target, resp.Status)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}
