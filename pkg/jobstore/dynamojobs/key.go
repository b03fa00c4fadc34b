package dynamojobs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Attributes that are keys of a table or an index, or the TTL.
const (
	attrP       = "p"
	attrS       = "s"
	attrExpires = "x"
	attrShard   = "w"
	attrWake    = "t"
	attrDead    = "d"
	attrDied    = "dt"
)

// The indexes.
const (
	wakeIndex = "wake"
	deadIndex = "dead"
)

// attributes is an item or a part of one.
type attributes = map[string]types.AttributeValue

// key is a primary key of either table.
type key struct{ p, s string }

func (k key) attributes() attributes { return attributes{attrP: str(k.p), attrS: str(k.s)} }

// keyOf returns the primary key in an item; empty parts where it has none.
func keyOf(it attributes) key { return key{text(it, attrP), text(it, attrS)} }

func text(it attributes, attr string) string {
	v, ok := it[attr].(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return v.Value
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// kind is a kind of item of the jobs table.
type kind uint8

const (
	kindDef kind = iota + 1
	kindNow
	kindListed
	kindTenant
	kindTenantKey
	kindSecret
	kindIdempotency
	kindKey
	kindAudit
)

// name is what a key of the jobs table says; which fields, the kind decides.
type name struct {
	kind   kind
	job    trigger.ID
	tenant string // has no '#'
	ms     int64  // epoch milliseconds, 0 to below 10^15
	id     string // of a key, secret or audit record; hash of an Idempotency-Key
}

// key is the one builder of keys of the jobs table; parse is its inverse.
func (n name) key() key {
	switch n.kind {
	case kindDef:
		return key{"J#" + n.job.String(), "def"}
	case kindNow:
		return key{"J#" + n.job.String(), "now"}
	case kindListed:
		return key{"T#" + n.tenant, "J#" + digits(n.ms) + "#" + n.job.String()}
	case kindTenant:
		return key{"T#" + n.tenant, "t"}
	case kindTenantKey:
		return key{"T#" + n.tenant, "K#" + n.id}
	case kindSecret:
		return key{"T#" + n.tenant, "S#" + n.id}
	case kindIdempotency:
		return key{"I#" + n.tenant + "#" + n.id, "i"}
	case kindKey:
		return key{"K#" + n.id, "k"}
	default:
		return key{"A#" + n.tenant, digits(n.ms) + "#" + n.id}
	}
}

var errKey = errors.New("not a key of the jobs table")

// parse is the one parser of keys of the jobs table.
func parse(k key) (name, error) {
	table, rest, _ := strings.Cut(k.p, "#")
	var n name
	var err error
	switch table {
	case "J":
		n.kind = map[string]kind{"def": kindDef, "now": kindNow}[k.s]
		n.job, err = trigger.ParseID(rest)
	case "I":
		n.kind = kindIdempotency
		n.tenant, n.id, _ = strings.Cut(rest, "#")
	case "K":
		n.kind, n.id = kindKey, rest
	case "A":
		n.kind, n.tenant = kindAudit, rest
		n.ms, n.id, err = cutDigits(k.s)
	case "T":
		n.tenant = rest
		err = n.parseOfTenant(k.s)
	}
	// What builds another key, another release's for instance, is none of ours.
	if err != nil || n.kind == 0 || strings.Contains(n.tenant, "#") || n.key() != k {
		return name{}, fmt.Errorf("%w: %q, %q", errKey, k.p, k.s)
	}
	return n, nil
}

func (n *name) parseOfTenant(s string) error {
	what, rest, _ := strings.Cut(s, "#")
	switch what {
	case "t":
		n.kind = kindTenant
	case "K":
		n.kind, n.id = kindTenantKey, rest
	case "S":
		n.kind, n.id = kindSecret, rest
	case "J":
		n.kind = kindListed
		ms, id, err := cutDigits(rest)
		if err != nil {
			return err
		}
		n.ms = ms
		n.job, err = trigger.ParseID(id)
		return err //nolint:wrapcheck // parse says more.
	}
	return nil
}

// maxDigits is the first number that 15 digits cannot hold.
const maxDigits = 1_000_000_000_000_000

func digits(ms int64) string { return fmt.Sprintf("%015d", ms) }

func cutDigits(s string) (int64, string, error) {
	d, rest, _ := strings.Cut(s, "#")
	n, err := strconv.ParseUint(d, 10, 63)
	if err != nil || n >= maxDigits {
		return 0, "", errKey
	}
	return int64(n), rest, nil
}

// keyMillis is a time as keys have it: clamped to what 15 digits hold.
func keyMillis(t time.Time) int64 { return min(max(t.UnixMilli(), 0), maxDigits-1) }

func defKey(id trigger.ID) key { return name{kind: kindDef, job: id}.key() }
func nowKey(id trigger.ID) key { return name{kind: kindNow, job: id}.key() }

func listedKey(j *job.Job) key {
	return name{kind: kindListed, tenant: j.Tenant, ms: keyMillis(j.Created), job: j.ID}.key()
}

func idempotencyKey(tenant, k string) key {
	sum := sha256.Sum256([]byte(k))
	return name{kind: kindIdempotency, tenant: tenant, id: hex.EncodeToString(sum[:])}.key()
}

func auditKey(r *jobstore.AuditRecord) key {
	return name{kind: kindAudit, tenant: r.Tenant, ms: keyMillis(r.At), id: r.ID.String()}.key()
}

// runKey is the one builder of keys of the runs table; parseRun is its inverse.
func runKey(id job.RunID) (key, error) {
	_, parts, err := job.ParseRunID(string(id))
	if err != nil {
		return key{}, fmt.Errorf("run %q: %w", id, err)
	}
	return key{parts.Job.String(), parts.Sort}, nil
}

func parseRun(k key) (job.RunID, trigger.ID, error) {
	id, parts, err := job.ParseRunID(k.p + "_" + k.s)
	if err != nil {
		return "", trigger.ID{}, fmt.Errorf("run %q, %q: %w", k.p, k.s, err)
	}
	return id, parts.Job, nil
}

// shard spreads what wakes over the shards of the index, by its primary key.
func shard(k key) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.p + "\x00" + k.s))
	return shardName(int(h.Sum32() % jobstore.Wakes))
}

func shardName(n int) string { return strconv.Itoa(n) }
