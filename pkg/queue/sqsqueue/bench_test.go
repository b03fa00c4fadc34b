package sqsqueue

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// wire answers without a network and can change the request's body on the way.
type wire struct{ rewrite func([]byte) []byte }

const allSent = `{"Successful":[{"Id":"0"},{"Id":"1"},{"Id":"2"},{"Id":"3"},{"Id":"4"},{"Id":"5"},{"Id":"6"},{"Id":"7"},{"Id":"8"},{"Id":"9"}]}`

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if w.rewrite != nil {
		w.rewrite(body)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(allSent)), ContentLength: int64(len(allSent)), Request: r,
	}, nil
}

// rewriteJSON is the other way to send zeros: to decode the SDK's body.
func rewriteJSON(b []byte) []byte {
	var in map[string]json.RawMessage
	var entries []map[string]json.RawMessage
	if json.Unmarshal(b, &in) != nil || json.Unmarshal(in["Entries"], &entries) != nil {
		panic("not a batch")
	}
	for _, e := range entries {
		if e["DelaySeconds"] == nil {
			e["DelaySeconds"] = json.RawMessage("0")
		}
	}
	in["Entries"], _ = json.Marshal(entries)
	out, _ := json.Marshal(in)
	return out
}

// BenchmarkSendBatch compares ways to put a zero delay on the wire, on ten
// messages of 300 bytes with four attributes. One operation is one call of ten.
func BenchmarkSendBatch(b *testing.B) {
	msgs := make([]queue.Message, queue.MaxBatch)
	for i := range msgs {
		msgs[i] = queue.Message{Body: strings.Repeat("x", 300), Attributes: map[string]string{}}
		for j := range 4 {
			msgs[i].Attributes[fmt.Sprint("attribute", j)] = "0123456789abcdef0123456789abcdef"
		}
	}
	for name, c := range map[string]struct {
		wire  wire
		zeros bool
	}{
		"sdk alone, no zero":  {},
		"described zero":      {zeros: true},
		"decoded and rebuilt": {wire: wire{rewrite: rewriteJSON}},
	} {
		b.Run(name, func(b *testing.B) {
			q, err := New(aws.Config{
				Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
				HTTPClient: &http.Client{Transport: c.wire},
			}, Options{})
			require.NoError(b, err)
			if !c.zeros {
				q.once = q.retrying
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range q.SendBatch(b.Context(), "https://sqs.us-east-1.amazonaws.com/1/q", msgs) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
