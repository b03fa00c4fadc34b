package dynamojobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// A cursor is the place of the last item of a page: base64url of a checksum, then
// the place. The checksum is over the query and the place, so that another
// query's cursor and a mangled one are known. It is no seal: the query names the
// tenant or the job, and so the partition that is read.
const checksumLen = 12

// place is where a list goes on: the sort key of the last item; on the index of
// dead letters also its p and when it died.
type place struct {
	S    string `json:"s"`
	P    string `json:"p,omitempty"`
	Died string `json:"d,omitempty"`
}

// query names a list for its cursors: its kind and everything that bounds it.
type query []string

func (q query) checksum(body []byte) []byte {
	text, _ := json.Marshal([]string(q)) // strings marshal
	sum := sha256.Sum256(append(append(text, 0), body...))
	return sum[:checksumLen]
}

func (q query) cursor(p place) string {
	body, _ := json.Marshal(p) // strings marshal
	return base64.RawURLEncoding.EncodeToString(append(q.checksum(body), body...))
}

// place reads a cursor; nil: from the start. The error is ErrCursor.
func (q query) place(cursor string) (*place, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // as documented.
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < checksumLen || !bytes.Equal(raw[:checksumLen], q.checksum(raw[checksumLen:])) {
		return nil, fmt.Errorf("list %s: %w", q[0], jobstore.ErrCursor)
	}
	var p place
	if err := json.Unmarshal(raw[checksumLen:], &p); err != nil {
		return nil, fmt.Errorf("list %s: %w", q[0], jobstore.ErrCursor)
	}
	return &p, nil
}
