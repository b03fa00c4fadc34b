package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
)

// request is a call on its way, some parts of which may be taken out.
type request struct {
	call   *journal.Call
	body   []byte
	fields map[string]json.RawMessage // of a batch
	list   string                     // the field that holds its parts
	parts  []part
	taken  bool // some part is not forwarded
	single bool // a delete, or the like, of one message that was a copy
}

type part struct {
	raw    json.RawMessage
	ref    string
	fault  string // injected; not forwarded
	copied bool   // of a message that the proxy made: answered here, with success
}

func newRequest(call *journal.Call, body []byte) *request {
	r := &request{call: call, body: body}
	switch {
	case call.SQS && strings.HasSuffix(call.Op, "Batch"):
		r.list = "Entries"
	case call.Op == "BatchExecuteStatement":
		r.list = "Statements"
	default:
		return r
	}
	var raws []json.RawMessage
	if json.Unmarshal(body, &r.fields) != nil || json.Unmarshal(r.fields[r.list], &raws) != nil {
		r.list = ""
		return r
	}
	for i, raw := range raws {
		p := part{raw: raw, ref: strconv.Itoa(i)}
		if call.SQS {
			var e struct{ ID string }
			_ = json.Unmarshal(raw, &e) // then it has no id, and the endpoint says so
			p.ref = e.ID
		}
		r.parts = append(r.parts, p)
	}
	return r
}

// dropCopies takes out what is about messages the proxy repeated: the endpoint
// does not know their receipts. SQS answers success for them.
func (r *request) dropCopies() {
	if !r.call.SQS || strings.HasPrefix(r.call.Op, "Send") {
		return
	}
	copied := func(raw []byte) bool {
		var e struct{ ReceiptHandle string }
		return json.Unmarshal(raw, &e) == nil && strings.HasPrefix(e.ReceiptHandle, journal.Copy)
	}
	r.single = r.list == "" && copied(r.body)
	for i := range r.parts {
		if copied(r.parts[i].raw) {
			r.parts[i].copied, r.taken = true, true
		}
	}
}

// refuse takes parts out: about half, and at least one. It returns what becomes
// of them, by their references.
func (r *request) refuse(coin float64) map[string]string {
	out := make(map[string]string)
	bits := uint64(coin * (1 << 52))
	for i := range r.parts {
		if r.parts[i].copied || bits>>(i%52)&1 == 0 && i != len(r.parts)-1 {
			continue
		}
		r.parts[i].fault, r.taken = string(Refuse), true
		out[r.parts[i].ref] = string(Refuse)
	}
	return out
}

// spent reports whether nothing is left to be forwarded.
func (r *request) spent() bool {
	if r.single {
		return true
	}
	if !r.taken {
		return false
	}
	for _, p := range r.parts {
		if p.fault == "" && !p.copied {
			return false
		}
	}
	return true
}

// bytes is the body to forward.
func (r *request) bytes() []byte {
	if !r.taken {
		return r.body
	}
	left := make([]json.RawMessage, 0, len(r.parts))
	for _, p := range r.parts {
		if p.fault == "" && !p.copied {
			left = append(left, p.raw)
		}
	}
	r.fields[r.list], _ = json.Marshal(left) // valid JSON it was made of
	body, _ := json.Marshal(r.fields)
	return body
}

// merge puts the outcomes of the parts that were taken out into an answer.
func (r *request) merge(a *answer) {
	if !r.taken || a.status != http.StatusOK {
		return
	}
	fields := make(map[string]json.RawMessage)
	if json.Unmarshal(a.body, &fields) != nil {
		return
	}
	if r.call.SQS {
		r.mergeEntries(fields)
	} else {
		r.mergeStatements(fields)
	}
	a.body, _ = json.Marshal(fields)
}

func (r *request) mergeEntries(fields map[string]json.RawMessage) {
	var failed, done []any
	_ = json.Unmarshal(fields["Failed"], &failed) // either may be absent
	_ = json.Unmarshal(fields["Successful"], &done)
	for _, p := range r.parts {
		switch {
		case p.copied:
			done = append(done, map[string]string{"Id": p.ref})
		case p.fault != "":
			failed = append(failed, map[string]any{"Id": p.ref, "SenderFault": false, "Code": "RequestThrottled", "Message": "Injected."})
		}
	}
	for name, list := range map[string][]any{"Failed": failed, "Successful": done} {
		if len(list) > 0 {
			fields[name], _ = json.Marshal(list)
		}
	}
}

func (r *request) mergeStatements(fields map[string]json.RawMessage) {
	var got, all []any
	_ = json.Unmarshal(fields["Responses"], &got)
	for _, p := range r.parts {
		switch {
		case p.fault != "":
			all = append(all, map[string]any{"Error": map[string]string{
				"Code": "ProvisionedThroughputExceeded", "Message": "The level of configured provisioned throughput for the table was exceeded.",
			}})
		case len(got) > 0:
			all, got = append(all, got[0]), got[1:]
		}
	}
	fields["Responses"], _ = json.Marshal(all)
}

func jsonHeader() http.Header {
	return http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
}

// refusal is an error as AWS writes it. Sources: "Common errors" of the SQS API
// reference, "Error handling with DynamoDB".
func refusal(d dice, call *journal.Call) *answer {
	a := &answer{status: http.StatusBadRequest, header: jsonHeader()}
	var code string
	ns := "com.amazonaws.dynamodb.v20120810#"
	if call.SQS {
		ns = "com.amazonaws.sqs#"
	}
	switch {
	case d.kind == Fail && d.coin < 0.3: // of a load balancer
		a.status, a.body = http.StatusServiceUnavailable, []byte("<html><body><b>Http/1.1 Service Unavailable</b></body></html>")
		a.header.Set("Content-Type", "text/html")
		return a
	case d.kind == Fail && call.SQS:
		a.status, code = http.StatusInternalServerError, "InternalFailure"
	case d.kind == Fail:
		a.status, code = http.StatusInternalServerError, "InternalServerError"
	case call.SQS:
		code = "RequestThrottled"
	case d.coin < 0.5:
		code, ns = "ThrottlingException", "com.amazon.coral.availability#"
	default:
		code = "ProvisionedThroughputExceededException"
	}
	if call.SQS {
		a.header.Set("X-Amzn-Query-Error", code+";Sender")
	}
	a.body, _ = json.Marshal(map[string]string{"__type": ns + code, "message": "Injected."})
	return a
}
