package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	targetSend  = "AmazonSQS.SendMessage"
	targetBatch = "AmazonSQS.SendMessageBatch"
	// maxBody is above what a batch of 1 MiB takes with every byte escaped.
	maxBody       = 8 << 20
	maxAttributes = 10
	// kumoHost is in the queue URLs that kumo makes, wherever it listens.
	kumoHost = "http://localhost:4566/"
)

// sent is what is checked of a message.
type sent struct {
	ID                string `json:"Id"`
	MessageBody       string
	MessageAttributes map[string]struct {
		DataType, StringValue string
		BinaryValue           []byte
	}
}

func (s *sent) size() int {
	n := len(s.MessageBody)
	for name, a := range s.MessageAttributes {
		n += len(name) + len(a.DataType) + len(a.StringValue) + len(a.BinaryValue)
	}
	return n
}

// refusal is an error as SQS writes it.
type refusal struct{ code, msg string }

// refused tells why SQS would not take a message. Source: SendMessage in the
// SQS API reference.
func (s *sent) refused() *refusal {
	if n := len(s.MessageAttributes); n > maxAttributes {
		return &refusal{"InvalidParameterValue", fmt.Sprintf("Number of message attributes [%d] exceeds the allowed maximum [%d].", n, maxAttributes)}
	}
	if s.size() > queue.MaxMessageBytes {
		return &refusal{"InvalidParameterValue", fmt.Sprintf(
			"One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", queue.MaxMessageBytes)}
	}
	ok := trigger.SQSText(s.MessageBody)
	for _, a := range s.MessageAttributes {
		ok = ok && trigger.SQSText(a.StringValue)
	}
	if !ok {
		return &refusal{"InvalidMessageContents", "Invalid characters were found in the message. The message contains characters outside the allowed set."}
	}
	return nil
}

// batchFailure is one entry of a batch that was not sent.
type batchFailure struct {
	ID          string `json:"Id"`
	SenderFault bool
	Code        string
	Message     string
}

// strict refuses what SQS refuses and kumo takes, so that what works on a laptop
// works on AWS: large messages, control characters, eleven attributes.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.Header.Get("X-Amz-Target")
		if target != targetSend && target != targetBatch {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		switch {
		case err != nil:
			return // the caller has gone
		case len(body) > maxBody:
			writeRefusal(w, &refusal{"InvalidParameterValue", "The request is too large."})
			return
		case target == targetSend:
			var m sent
			if json.Unmarshal(body, &m) == nil { // what is no JSON is kumo's to refuse
				if no := m.refused(); no != nil {
					writeRefusal(w, no)
					return
				}
			}
			forward(next, w, r, body)
		default:
			strictBatch(next, w, r, body)
		}
	})
}

// strictBatch takes the entries that would be refused out of a batch and adds
// their failures to the answer.
func strictBatch(next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
	var fields map[string]json.RawMessage
	var raws []json.RawMessage
	var entries []sent
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["Entries"], &raws) != nil ||
		json.Unmarshal(fields["Entries"], &entries) != nil {
		forward(next, w, r, body)
		return
	}
	total := 0
	var failed []batchFailure
	good := make([]json.RawMessage, 0, len(raws))
	for i := range entries {
		total += entries[i].size()
		if no := entries[i].refused(); no != nil {
			failed = append(failed, batchFailure{ID: entries[i].ID, SenderFault: true, Code: no.code, Message: no.msg})
			continue
		}
		good = append(good, raws[i])
	}
	switch {
	case total > queue.MaxBatchBytes:
		writeRefusal(w, &refusal{"AWS.SimpleQueueService.BatchRequestTooLong",
			fmt.Sprintf("Batch requests cannot be longer than %d bytes. You have sent %d bytes.", queue.MaxBatchBytes, total)})
	case len(failed) == 0:
		forward(next, w, r, body)
	case len(good) == 0:
		writeJSON(w, http.StatusOK, map[string]any{"Failed": failed})
	default:
		fields["Entries"], _ = json.Marshal(good)
		body, _ = json.Marshal(fields)
		rec := &held{header: make(http.Header), status: http.StatusOK}
		forward(next, rec, r, body)
		rec.merge(w, failed)
	}
}

func forward(next http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	next.ServeHTTP(w, r)
}

// held keeps an answer back so that it can be changed.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }

func (h *held) merge(w http.ResponseWriter, failed []batchFailure) {
	body := h.body.Bytes()
	var answer struct {
		Successful []json.RawMessage `json:",omitempty"`
		Failed     []any             `json:",omitempty"`
	}
	if h.status == http.StatusOK && json.Unmarshal(body, &answer) == nil {
		for _, f := range failed {
			answer.Failed = append(answer.Failed, f)
		}
		writeJSON(w, http.StatusOK, answer)
		return
	}
	maps.Copy(w.Header(), h.header)
	w.WriteHeader(h.status)
	_, _ = w.Write(body) // the caller has gone if it fails
}

func writeRefusal(w http.ResponseWriter, no *refusal) {
	w.Header().Set("X-Amzn-Query-Error", no.code+";Sender")
	writeJSON(w, http.StatusBadRequest, map[string]string{
		"__type": "com.amazonaws.sqs#" + no.code[strings.LastIndexByte(no.code, '.')+1:], "message": no.msg,
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone if it fails
}

// modify puts the address that the caller used into the queue URLs of an answer:
// some SDKs send to the URL of a queue, whatever their endpoint is.
func (e *Engine) modify(resp *http.Response) error {
	switch resp.Request.Header.Get("X-Amz-Target") {
	case "AmazonSQS.CreateQueue", "AmazonSQS.GetQueueUrl", "AmazonSQS.ListQueues", "AmazonSQS.ListDeadLetterSourceQueues":
	default:
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	host := resp.Request.Host
	if !plainHost(host) {
		host = e.Addr()
	}
	body = bytes.ReplaceAll(body, []byte(`"`+kumoHost), []byte(`"http://`+host+`/`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// plainHost reports whether a Host header is safe to write into JSON, and not
// the virtual host of some service.
func plainHost(s string) bool {
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		host = s
	}
	return host != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") == "" && !strings.HasSuffix(host, ".amazonaws.com")
}
