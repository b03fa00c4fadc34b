package access_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/access"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newKey(t *testing.T, g access.Grant) (access.Key, access.Plaintext) {
	t.Helper()
	k, p, err := access.NewKey(g, noon())
	require.NoError(t, err)
	return k, p
}

func TestKeyIsReadBackAndVerifies(t *testing.T) {
	k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Write, Name: "ci"})
	require.Regexp(t, "^"+access.KeyPattern+"$", p.Reveal())
	require.Equal(t, noon(), k.Created)
	read, err := access.ParseKey(p.Reveal())
	require.NoError(t, err)
	require.Equal(t, k.ID, read.ID())
	require.True(t, k.Verify(read))

	_, other := newKey(t, access.Grant{Tenant: "acme", Role: access.Write})
	require.False(t, k.Verify(other))
	require.False(t, k.Verify(access.Plaintext{}))
	require.NotEqual(t, p.Reveal(), other.Reveal())
}

func TestKeyVerifiesNothingUnderAnotherIDOrHash(t *testing.T) {
	k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	stolen, _ := newKey(t, access.Grant{Tenant: "evil", Role: access.Admin})
	moved := stolen
	moved.Hash = k.Hash // the hash copied into another record
	require.False(t, moved.Verify(p))
	for i := range k.Hash {
		wrong := k
		wrong.Hash[i] ^= 1
		require.False(t, wrong.Verify(p), "byte %d", i)
	}
	require.True(t, k.Verify(p))
}

func TestEveryChangedCharacterOfAKeyIsRefusedFromTheTextAlone(t *testing.T) {
	_, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	text := p.Reveal()
	for i := range text {
		for _, c := range "a7A1_ \n=" {
			changed := text[:i] + string(c) + text[i+1:]
			if changed == text {
				continue
			}
			_, err := access.ParseKey(changed)
			require.ErrorIs(t, err, access.ErrNotAKey, "position %d, %q", i, c)
		}
	}
	for _, s := range []string{"", "myo_", text[:len(text)-1], text + "a", text + "\n", " " + text, strings.ToUpper(text), text[4:],
		text[:len(text)-8] + strings.Repeat("\n", 8), "myo_" + text[4:12] + strings.Repeat("\n", 8) + text[20:], // the decoder skips line ends
	} {
		_, err := access.ParseKey(s)
		require.ErrorIs(t, err, access.ErrNotAKey)
	}
}

func TestParseKeyTakesOnlyWhatItWouldWrite(t *testing.T) {
	pattern := regexp.MustCompile("^" + access.KeyPattern + "$")
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(access.KeyPattern)).Draw(t, "text")
		p, err := access.ParseKey(s)
		if err != nil {
			require.ErrorIs(t, err, access.ErrNotAKey)
			return
		}
		require.Equal(t, s, p.Reveal())
		require.Regexp(t, pattern, s)
	})
}

func TestPlaintextIsShownByRevealOnly(t *testing.T) {
	_, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	secret := p.Reveal()[len("myo_")+16+1:]
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		fmt.Fprintf(&out, verb+verb+verb+verb, p, &p, []access.Plaintext{p}, struct{ P access.Plaintext }{p})
		fmt.Fprintf(&out, verb, struct{ p access.Plaintext }{p}) // fmt calls no methods here
	}
	require.NoError(t, json.NewEncoder(&out).Encode(map[string]any{"key": p, "keys": []access.Plaintext{p}}))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("made", "key", p, "all", []access.Plaintext{p}, "in", struct{ K access.Plaintext }{p})
	}
	require.NotContains(t, out.String(), secret)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", secret))
	for _, want := range []string{`{"key":"[redacted]","keys":["[redacted]"]}`, "key=[redacted]", `"in":{"K":"[redacted]"}`} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, "[redacted]", p.LogValue().String())
}

func TestRecordOfAKeyKeepsItsHashOutOfJSON(t *testing.T) {
	k, _ := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	b, err := json.Marshal(k)
	require.NoError(t, err)
	require.NotContains(t, string(b), "Hash")
	require.Contains(t, string(b), `"Role":"read"`)
}

func TestGrantsThatGrantNothingSensibleAreRefusedTogether(t *testing.T) {
	for name, g := range map[string]access.Grant{
		"tenant: want": {Role: access.Read},
		"want 1 to 64": {Tenant: "a/b", Role: access.Read},
		"to 64 of":     {Tenant: strings.Repeat("a", 65), Role: access.Read},
		"role: want":   {Tenant: "acme"},
		"write or":     {Tenant: "acme", Role: 4},
		"or nothing":   {Tenant: access.Platform, Role: access.Write},
		"at most 128":  {Tenant: "acme", Role: access.Read, Name: strings.Repeat("n", 129)},
		"in the past":  {Tenant: "acme", Role: access.Read, Expires: noon()},
	} {
		_, p, err := access.NewKey(g, noon())
		require.ErrorContains(t, err, name)
		require.Empty(t, p.Reveal())
	}
	err := access.Grant{Tenant: "a b", Name: strings.Repeat("n", 129)}.Validate()
	require.ErrorContains(t, err, "tenant")
	require.ErrorContains(t, err, "role")
	require.ErrorContains(t, err, "name")
	require.NoError(t, access.Grant{Tenant: access.Platform, Role: access.Admin}.Validate())
}
