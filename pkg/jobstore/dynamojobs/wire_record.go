package dynamojobs

import (
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// attrEnds is when a kept answer no longer counts: x rounded down no further.
const attrEnds = "e"

type idempotencyWire struct {
	Tenant   string `dynamodbav:"te"`
	Key      string `dynamodbav:"ky"`
	BodyHash []byte `dynamodbav:"h"`
	Status   int    `dynamodbav:"hs"`
	Answer   []byte `dynamodbav:"b,omitempty"`
	Ends     number `dynamodbav:"e,omitempty"`
	Expires  int64  `dynamodbav:"x,omitempty"`
}

func idempotencyItem(i *jobstore.Idempotency) (attributes, error) {
	return encode(idempotencyKey(i.Tenant, i.Key), idempotencyWire{
		Tenant: i.Tenant, Key: i.Key, BodyHash: i.BodyHash[:], Status: i.Status, Answer: i.Answer,
		Ends: millis(i.Expires), Expires: ttl(i.Expires),
	})
}

func readIdempotency(it attributes) (jobstore.Idempotency, error) {
	var w idempotencyWire
	if err := decode(it, &w); err != nil {
		return jobstore.Idempotency{}, err
	}
	var r reader
	return jobstore.Idempotency{
		Tenant: w.Tenant, Key: w.Key, BodyHash: r.hash(w.BodyHash), Status: w.Status, Answer: w.Answer,
		Expires: r.time(w.Ends),
	}, r.err()
}

type auditWire struct {
	Tenant  string `dynamodbav:"te"`
	At      number `dynamodbav:"a,omitempty"`
	ID      string `dynamodbav:"i"`
	Subject string `dynamodbav:"u,omitempty"`
	Action  string `dynamodbav:"n,omitempty"`
	Object  string `dynamodbav:"o,omitempty"`
	Detail  string `dynamodbav:"dl,omitempty"`
	Ends    number `dynamodbav:"e,omitempty"`
	Expires int64  `dynamodbav:"x,omitempty"`
}

func auditItem(a *jobstore.AuditRecord) (attributes, error) {
	return encode(auditKey(a), auditWire{
		Tenant: a.Tenant, At: millis(a.At), ID: a.ID.String(), Subject: a.Subject, Action: a.Action,
		Object: a.Object, Detail: a.Detail, Ends: millis(a.Expires), Expires: ttl(a.Expires),
	})
}

func readAudit(it attributes) (jobstore.AuditRecord, error) {
	var w auditWire
	if err := decode(it, &w); err != nil {
		return jobstore.AuditRecord{}, err
	}
	var r reader
	id, err := trigger.ParseID(w.ID)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return jobstore.AuditRecord{
		Tenant: w.Tenant, At: r.time(w.At), ID: id, Subject: w.Subject, Action: w.Action,
		Object: w.Object, Detail: w.Detail, Expires: r.time(w.Ends),
	}, r.err()
}

type tenantWire struct {
	ID            string             `dynamodbav:"i"`
	Contact       notifyWire         `dynamodbav:"nt"`
	MaxConcurrent int                `dynamodbav:"mc,omitempty"`
	AllowRanges   []string           `dynamodbav:"ar,omitempty"`
	AllowServices []string           `dynamodbav:"av,omitempty"`
	AllowTopics   []string           `dynamodbav:"ao,omitempty"`
	Rates         map[string]float64 `dynamodbav:"ra,omitempty"`
	Updated       number             `dynamodbav:"u,omitempty"`
	Version       int64              `dynamodbav:"ve"`
}

func tenantItem(t *jobstore.Tenant, version int64) (attributes, error) {
	return encode(name{kind: kindTenant, tenant: t.ID}.key(), tenantWire{
		ID: t.ID, Contact: notifyWire(t.Contact), MaxConcurrent: t.MaxConcurrent, AllowRanges: t.AllowRanges,
		AllowServices: t.AllowServices, AllowTopics: t.AllowTopics, Rates: t.Rates, Updated: millis(t.Updated), Version: version,
	})
}

func readTenant(it attributes) (jobstore.Tenant, error) {
	var w tenantWire
	if err := decode(it, &w); err != nil {
		return jobstore.Tenant{}, err
	}
	var r reader
	return jobstore.Tenant{
		ID: w.ID, Contact: job.Notify(w.Contact), MaxConcurrent: w.MaxConcurrent, AllowRanges: w.AllowRanges,
		AllowServices: w.AllowServices, AllowTopics: w.AllowTopics, Rates: w.Rates, Updated: r.time(w.Updated), Version: w.Version,
	}, r.err()
}

type keyWire struct {
	ID      string `dynamodbav:"i"`
	Hash    []byte `dynamodbav:"h"`
	Tenant  string `dynamodbav:"te,omitempty"`
	Role    string `dynamodbav:"ro,omitempty"`
	Name    string `dynamodbav:"na,omitempty"`
	Created number `dynamodbav:"c,omitempty"`
	Ends    number `dynamodbav:"e,omitempty"`
	Revoked number `dynamodbav:"rv,omitempty"`
	Version int64  `dynamodbav:"ve"`
}

func keyItem(at key, k *jobstore.Key, version int64) (attributes, error) {
	return encode(at, keyWire{
		ID: k.ID, Hash: k.Hash[:], Tenant: k.Tenant, Role: k.Role, Name: k.Name,
		Created: millis(k.Created), Ends: millis(k.Expires), Revoked: millis(k.Revoked), Version: version,
	})
}

func readKey(it attributes) (jobstore.Key, error) {
	var w keyWire
	if err := decode(it, &w); err != nil {
		return jobstore.Key{}, err
	}
	var r reader
	return jobstore.Key{
		ID: w.ID, Hash: r.hash(w.Hash), Tenant: w.Tenant, Role: w.Role, Name: w.Name,
		Created: r.time(w.Created), Expires: r.time(w.Ends), Revoked: r.time(w.Revoked), Version: w.Version,
	}, r.err()
}

type secretWire struct {
	Tenant  string `dynamodbav:"te"`
	ID      string `dynamodbav:"i"`
	Sealed  []byte `dynamodbav:"b,omitempty"`
	Created number `dynamodbav:"c,omitempty"`
	Ends    number `dynamodbav:"e,omitempty"`
}

func secretItem(x *jobstore.Secret) (attributes, error) {
	return encode(name{kind: kindSecret, tenant: x.Tenant, id: x.ID}.key(), secretWire{
		Tenant: x.Tenant, ID: x.ID, Sealed: x.Sealed, Created: millis(x.Created), Ends: millis(x.Expires),
	})
}

func readSecret(it attributes) (jobstore.Secret, error) {
	var w secretWire
	if err := decode(it, &w); err != nil {
		return jobstore.Secret{}, err
	}
	var r reader
	return jobstore.Secret{
		Tenant: w.Tenant, ID: w.ID, Sealed: w.Sealed, Created: r.time(w.Created), Expires: r.time(w.Ends),
	}, r.err()
}
