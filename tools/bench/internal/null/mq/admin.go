package mq

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

const (
	account   = "000000000000"
	arnPrefix = "arn:aws:sqs:us-east-1:" + account + ":"
)

// parseRedrive reads a redrive policy; a number may be written as text.
func parseRedrive(policy string) (queue string, most uint32) {
	var p struct {
		DeadLetterTargetArn string          `json:"deadLetterTargetArn"`
		MaxReceiveCount     json.RawMessage `json:"maxReceiveCount"`
	}
	if policy == "" || json.Unmarshal([]byte(policy), &p) != nil {
		return "", 0
	}
	n, ok := wire.Int(p.MaxReceiveCount)
	if !ok || n < 1 || n > 1000 {
		return "", 0
	}
	return p.DeadLetterTargetArn[strings.LastIndexByte(p.DeadLetterTargetArn, ':')+1:], uint32(n)
}

func (e *Engine) admin(op, host string, body, dst []byte) ([]byte, *wire.Error) {
	var in struct {
		QueueName       string
		QueueURL        json.RawMessage `json:"QueueUrl"`
		QueueNamePrefix string
		Attributes      map[string]string
		AttributeNames  []string
	}
	if json.Unmarshal(body, &in) != nil {
		return dst, wire.Malformed()
	}
	url := func(name string) string { return "http://" + host + "/" + account + "/" + name }
	out := any(struct{}{})
	var err *wire.Error
	switch op {
	case "CreateQueue":
		if err = e.create(in.QueueName, in.Attributes); err == nil {
			out = map[string]string{"QueueUrl": url(in.QueueName)}
		}
	case "GetQueueUrl":
		if _, err = e.queueOf([]byte(strconv.Quote(in.QueueName)), op); err == nil {
			out = map[string]string{"QueueUrl": url(in.QueueName)}
		}
	case "ListQueues":
		e.mu.RLock()
		names := slices.Sorted(maps.Keys(e.queues))
		e.mu.RUnlock()
		urls := []string{}
		for _, name := range names {
			if strings.HasPrefix(name, in.QueueNamePrefix) {
				urls = append(urls, url(name))
			}
		}
		out = map[string][]string{"QueueUrls": urls}
	default:
		var q *queue
		if q, err = e.queueOf(in.QueueURL, op); err != nil {
			break
		}
		switch op {
		case "GetQueueAttributes":
			out = map[string]any{"Attributes": q.attributes(in.AttributeNames)}
		case "SetQueueAttributes":
			q.mu.Lock()
			q.set(in.Attributes)
			q.mu.Unlock()
		case "PurgeQueue":
			q.mu.Lock()
			q.purge()
			q.mu.Unlock()
		case "DeleteQueue":
			e.mu.Lock()
			delete(e.queues, q.name)
			e.mu.Unlock()
			q.end()
		}
	}
	if err != nil {
		return dst, err
	}
	answer, _ := json.Marshal(out) // of texts alone
	return append(dst, answer...), nil
}

func (e *Engine) create(name string, attrs map[string]string) *wire.Error {
	fifo := strings.HasSuffix(name, ".fifo")
	if !validID([]byte(strings.TrimSuffix(name, ".fifo"))) || len(name) > 80 {
		return invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	if fifo != (attrs["FifoQueue"] == "true") {
		return invalid("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix.")
	}
	q := &queue{name: name, fifo: fifo, maxFlying: e.opts.InFlight, attrs: make(map[string]string), taken: make(map[uint64]*message)}
	q.set(attrs)
	if e.opts.Sink && strings.Contains(name, "-svc-") && !strings.HasSuffix(strings.TrimSuffix(name, ".fifo"), "-dlq") {
		q.sink = newSink(strings.HasSuffix(strings.TrimSuffix(name, ".fifo"), "-urgent"))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.queues[name]
	if old == nil {
		e.queues[name] = q
		return nil
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	for k, v := range attrs {
		if old.attrs[k] != v {
			return wire.Fault("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", k)
		}
	}
	return nil
}

// attributes are what GetQueueAttributes tells.
func (q *queue) attributes(names []string) map[string]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := maps.Clone(q.attrs)
	all["QueueArn"] = arnPrefix + q.name
	all["ApproximateNumberOfMessages"] = strconv.Itoa(q.visible)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.inDelay)
	all["VisibilityTimeout"] = strconv.Itoa(int(q.visibility.Seconds()))
	all["DelaySeconds"] = strconv.Itoa(int(q.delay.Seconds()))
	all["MaximumMessageSize"] = strconv.Itoa(q.maxSize)
	if slices.Contains(names, "All") {
		return all
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(names, name) })
	return all
}
