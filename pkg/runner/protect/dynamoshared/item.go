package dynamoshared

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
)

// One item a target. Its names are short because they are written every second.
const (
	attrPartition = "p" // S: "B#" and a hash of the target
	attrSort      = "s" // S: sortBreaker
	attrTTL       = "x" // N: Unix seconds
	attrTarget    = "t" // S: the target, for people; written with a change of state
	attrGen       = "g" // N: the state's generation; missing: 0
	attrUntil     = "u" // N: Unix ms, end of the pause; missing or 0: closed
	attrPause     = "w" // N: ms
	attrHolder    = "h" // S: the runner that may probe; missing or empty: none
	attrLease     = "l" // N: Unix ms
	// prefixCounts and a hash of the runner: B, its counts; see encodeCounts.
	prefixCounts = "c"

	sortBreaker = "breaker"
)

type item = map[string]types.AttributeValue

func key(target string) item {
	return item{attrPartition: str("B#" + hash(target, 16)), attrSort: str(sortBreaker)}
}

func attrCounts(runner string) string { return prefixCounts + hash(runner, 8) }

func hash(s string, bytes int) string {
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:bytes])
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func gen(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

// millis is a time as it is stored; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func decodeState(it item) (protect.State, error) {
	var s protect.State
	var errs []error
	number := func(name string) int64 {
		switch v := it[name].(type) {
		case nil:
		case *types.AttributeValueMemberN:
			n, err := strconv.ParseInt(v.Value, 10, 64)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			return n
		default:
			errs = append(errs, fmt.Errorf("%s: a number is due, not %T", name, v))
		}
		return 0
	}
	at := func(name string) time.Time {
		if n := number(name); n != 0 {
			return time.UnixMilli(n).UTC()
		}
		return time.Time{}
	}
	s.Gen = uint64(max(0, number(attrGen)))
	s.Until, s.Lease = at(attrUntil), at(attrLease)
	s.Pause = time.Duration(number(attrPause)) * time.Millisecond
	if h, ok := it[attrHolder].(*types.AttributeValueMemberS); ok {
		s.Holder = h.Value
	}
	return s, errors.Join(errs...)
}

// stored is one runner's counts and the bucket they were written in.
type stored struct {
	protect.Counts
	at int64
}

func (s stored) stale(now int64) bool { return now-s.at > 2*protect.WindowBuckets }

// maxBuckets bounds what is read: more than fit into a window.
const maxBuckets = 64

const countsVersion = 1

// encodeCounts writes version, generation, bucket of the writing, number of
// buckets, then for each how far it lies before that (signed), calls, failures:
// all varints, so a minute of a busy target takes some sixty bytes.
func encodeCounts(s stored) []byte {
	b := []byte{countsVersion}
	b = binary.AppendUvarint(b, s.Gen)
	b = binary.AppendVarint(b, s.at)
	b = binary.AppendUvarint(b, uint64(len(s.Buckets)))
	for _, k := range s.Buckets {
		b = binary.AppendVarint(b, s.at-k.Index)
		b = binary.AppendUvarint(b, uint64(k.Calls))
		b = binary.AppendUvarint(b, uint64(k.Failures))
	}
	return b
}

var errCounts = errors.New("counts: malformed")

func decodeCounts(b []byte) (stored, error) {
	if len(b) == 0 || b[0] != countsVersion {
		return stored{}, errCounts
	}
	b = b[1:]
	ok := true
	unsigned := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > limit {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	signed := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	const u32 = 1<<32 - 1
	s := stored{Counts: protect.Counts{Gen: unsigned(1<<64 - 1)}, at: signed()}
	n := unsigned(maxBuckets)
	for range n {
		before, calls, failures := signed(), unsigned(u32), unsigned(u32)
		if !ok {
			break
		}
		s.Buckets = append(s.Buckets, protect.Bucket{Index: s.at - before, Calls: uint32(calls), Failures: uint32(failures)}) //nolint:gosec // bounded above
	}
	if !ok || len(b) > 0 {
		return stored{}, errCounts
	}
	return s, nil
}

// decode returns the record of an item, and the attributes of runners that have
// written nothing for long.
func decode(r protect.Report, runner string, it item) (protect.Record, []string, error) {
	rec := protect.Record{Target: r.Target}
	var err error
	if rec.State, err = decodeState(it); err != nil {
		return rec, nil, err
	}
	own, now := attrCounts(runner), protect.BucketAt(r.At)
	var gone []string
	for name, v := range it {
		b, binary := v.(*types.AttributeValueMemberB)
		if !binary || !strings.HasPrefix(name, prefixCounts) || name == own {
			continue
		}
		// What cannot be read is a later release's, or nobody's: it counts for
		// nothing, and stays.
		c, err := decodeCounts(b.Value)
		switch {
		case err != nil:
		case c.stale(now):
			gone = append(gone, name)
		default:
			rec.Others = append(rec.Others, c.Counts)
		}
	}
	return rec, gone, nil
}
