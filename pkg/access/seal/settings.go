package seal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal/kmskeys"
	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Settings say how a process seals. Every process that seals or opens the same
// secrets needs the same. The zero value: not at all.
type Settings struct {
	// Keys as [NewLocal] reads them.
	Keys string
	// KMSKey is the id or ARN of a KMS key, or several separated by commas: the
	// first seals and all open. No alias: see [kmskeys.Options].
	KMSKey string
}

// Settings adds both to s; what they hold already are the defaults.
func (o *Settings) Settings(s *settings.Set) {
	s.StringVar(&o.Keys, "secret-keys", "MYOSIN_SECRET_KEYS",
		"keys that encrypt stored secrets, as id:base64 of 32 bytes, separated by commas: the first encrypts, all decrypt")
	s.Secret("secret-keys")
	s.StringVar(&o.KMSKey, "secret-kms-key", "MYOSIN_SECRET_KMS_KEY",
		"KMS key (id or ARN) that encrypts stored secrets instead; of several, separated by commas, the first encrypts and all decrypt")
}

// Open returns the sealer that the settings ask for: nil and no error when they
// ask for none. Nobody is asked before the first use. now nil: time.Now.
func (o *Settings) Open(cfg aws.Config, now func() time.Time) (access.Sealer, error) {
	switch {
	case o.Keys != "" && o.KMSKey != "":
		return nil, errors.New("sealer: both local keys and a KMS key are given; want one of them")
	case o.Keys != "":
		l, err := NewLocal(o.Keys)
		if err != nil {
			return nil, fmt.Errorf("sealer: %w", err) // a nil Local would be a Sealer
		}
		return l, nil
	case o.KMSKey != "":
		k, err := kmskeys.New(kmskeys.Options{Client: kmskeys.NewClient(cfg), Keys: strings.Split(o.KMSKey, ","), Now: now})
		if err != nil {
			return nil, fmt.Errorf("sealer: %w", err)
		}
		return k, nil
	}
	return nil, nil
}
