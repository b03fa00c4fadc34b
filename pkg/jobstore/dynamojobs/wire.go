package dynamojobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// number is an N; empty ones are left out.
type number = attributevalue.Number

// millis is a time as items have it: epoch milliseconds, with decimals where the
// time has them. Empty for the zero time.
func millis(t time.Time) number {
	if t.IsZero() {
		return ""
	}
	// Up to a multiple of 1e6 ns; floor, so that the decimals count upwards.
	ms, ns := t.UnixMilli(), t.Nanosecond()%int(time.Millisecond)
	if ns == 0 {
		return number(strconv.FormatInt(ms, 10))
	}
	if ms < 0 { // -1 ms and 0.25 more is -0.75
		ms, ns = ms+1, int(time.Millisecond)-ns
		if ms == 0 {
			return number("-0." + decimals(ns))
		}
	}
	return number(strconv.FormatInt(ms, 10) + "." + decimals(ns))
}

func decimals(ns int) string { return strings.TrimRight(fmt.Sprintf("%06d", ns), "0") }

func parseMillis(n number) (time.Time, error) {
	if n == "" {
		return time.Time{}, nil
	}
	whole, part, _ := strings.Cut(string(n), ".")
	ms, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time %q: %w", n, err)
	}
	var ns int64
	if part != "" {
		if ns, err = strconv.ParseInt((part + "000000")[:6], 10, 64); err != nil {
			return time.Time{}, fmt.Errorf("time %q: %w", n, err)
		}
	}
	if strings.HasPrefix(whole, "-") {
		ns = -ns
	}
	return time.UnixMilli(ms).Add(time.Duration(ns)).UTC(), nil
}

// reader collects the faults of one item.
type reader struct{ errs []error }

func (r *reader) time(n number) time.Time {
	t, err := parseMillis(n)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return t
}

func (r *reader) hash(b []byte) (h [32]byte) {
	if copy(h[:], b) != len(h) || len(b) != len(h) {
		r.errs = append(r.errs, fmt.Errorf("hash: %d bytes", len(b)))
	}
	return h
}

func (r *reader) err() error { return errors.Join(r.errs...) }

// ttl is when DynamoDB may delete what expires at t: no earlier.
func ttl(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Second - 1).Unix()
}

// encode returns the item of a wire struct under a key.
func encode(k key, v any) (attributes, error) {
	it, err := attributevalue.MarshalMap(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	it[attrP], it[attrS] = str(k.p), str(k.s)
	if n := size(it); n > maxItem {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", jobstore.ErrTooLarge, n, maxItem)
	}
	return it, nil
}

func decode(it attributes, v any) error {
	if err := attributevalue.UnmarshalMap(it, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// What DynamoDB takes, in bytes.
const (
	maxItem        = 400 << 10
	maxTransaction = 4 << 20
)

// size is how DynamoDB counts an item, or a little more.
func size(it attributes) int {
	n := 0
	for k, v := range it {
		n += len(k) + sizeOf(v)
	}
	return n
}

func sizeOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *types.AttributeValueMemberM:
		return 3 + len(v.Value) + size(v.Value)
	case *types.AttributeValueMemberL:
		n := 3
		for _, e := range v.Value {
			n += 1 + sizeOf(e)
		}
		return n
	default: // BOOL, NULL: no sets are written
		return 1
	}
}
