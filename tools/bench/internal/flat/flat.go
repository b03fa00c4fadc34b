// Package flat writes a report as one flat JSON object of snake_case keys, and
// rounds what goes into it. It holds no state.
package flat

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode"
)

// Write writes an object, its keys sorted.
func Write(w io.Writer, flat map[string]any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(flat); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Round keeps three places: more would be noise.
func Round(f float64) float64 { return math.Round(f*1000) / 1000 }

// PerJob is an amount for each of some jobs, rounded.
func PerJob(n float64, jobs int64) float64 { return Round(n / math.Max(float64(jobs), 1)) }

// Millis is a duration in milliseconds, rounded.
func Millis(d time.Duration) float64 { return Round(d.Seconds() * 1000) }

// MiB is an amount of bytes in MiB, rounded.
func MiB(bytes int64) float64 { return Round(float64(bytes) / (1 << 20)) }

// Call turns SQS.SendMessage into sqs_send_message.
func Call(name string) string {
	service, op, _ := strings.Cut(name, ".")
	var b strings.Builder
	for i, c := range op {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.ToLower(service) + "_" + b.String()
}
