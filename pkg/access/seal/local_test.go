package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal"
	"github.com/myosin-jobs/myosin/pkg/settings"
)

// key is a key spec; its 32 bytes are all b.
func key(id string, b byte) string {
	return id + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

func local(t testing.TB, keys ...string) *seal.Local {
	t.Helper()
	l, err := seal.NewLocal(strings.Join(keys, ","))
	require.NoError(t, err)
	return l
}

func bind() map[string]string { return map[string]string{"tenant": "acme", "secret": "s1"} }

func TestWhatIsSealedOpensWithTheSameBindOnly(t *testing.T) {
	l := local(t, key("k1", 1))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		m := rapid.MapOf(rapid.String(), rapid.String())
		b, other := m.Draw(t, "bind"), m.Draw(t, "other")
		sealed, err := l.Seal(t.Context(), text, b)
		require.NoError(t, err)
		opened, err := l.Open(t.Context(), sealed, b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, opened))
		if fmt.Sprintf("%q", other) != fmt.Sprintf("%q", b) { // fmt sorts maps
			_, err = l.Open(t.Context(), sealed, other)
			require.ErrorIs(t, err, access.ErrNotOpened)
		}
	})
}

func TestBindMapsThatReadAlikeAreNotTakenForEachOther(t *testing.T) {
	l := local(t, key("k1", 1))
	maps := []map[string]string{
		nil, {"": ""}, {"a": ""}, {"": "a"}, {"a": "b"}, {"ab": ""}, {"a": "bc"}, {"ab": "c"}, {"a": "b", "c": "d"}, {"a": "bcd"}, {"a": "d", "c": "b"},
	}
	for i, sealedWith := range maps {
		sealed, err := l.Seal(t.Context(), []byte("x"), sealedWith)
		require.NoError(t, err)
		for j, openedWith := range maps {
			_, err := l.Open(t.Context(), sealed, openedWith)
			require.Equal(t, i == j, err == nil, "%q opened with %q", sealedWith, openedWith)
		}
	}
}

func TestEveryChangedByteAndEveryCutIsNoticed(t *testing.T) {
	l := local(t, key("k1", 1), key("k2", 2))
	sealed, err := l.Seal(t.Context(), []byte("whsec_secret"), bind())
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "whsec")
	refused := func(b []byte, what string, i int) {
		_, err := l.Open(t.Context(), b, bind())
		require.True(t, errors.Is(err, access.ErrNotOpened) || errors.Is(err, access.ErrUnknownSealKey), "%s %d: %v", what, i, err)
	}
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit // among them k1 to a k2 that there is
			refused(changed, "byte", i)
		}
		refused(sealed[:i], "cut at", i)
		refused(sealed[i+1:], "cut before", i)
	}
	refused(append(bytes.Clone(sealed), 0), "longer", len(sealed))
}

func TestWhatKMSSealedIsNotALocalKeysWhateverItsID(t *testing.T) {
	l := local(t, key("k1", 1))
	sealed, err := l.Seal(t.Context(), []byte("x"), bind())
	require.NoError(t, err)
	sealed[1] = 2 // the kind
	_, err = l.Open(t.Context(), sealed, bind())
	require.ErrorIs(t, err, access.ErrUnknownSealKey)
}

func TestSealingTwiceGivesTwoTexts(t *testing.T) {
	l := local(t, key("k1", 1))
	a, err := l.Seal(t.Context(), []byte("x"), bind())
	require.NoError(t, err)
	b, err := l.Seal(t.Context(), []byte("x"), bind())
	require.NoError(t, err)
	require.NotEqual(t, a, b)
}

func TestKeysAreRotatedByPuttingOneInFront(t *testing.T) {
	before, during, after := local(t, key("old", 1)), local(t, key("new", 2), key("old", 1)), local(t, key("new", 2))
	old, err := before.Seal(t.Context(), []byte("secret"), bind())
	require.NoError(t, err)
	opened, err := during.Open(t.Context(), old, bind())
	require.NoError(t, err)
	again, err := during.Seal(t.Context(), opened, bind())
	require.NoError(t, err)
	opened, err = after.Open(t.Context(), again, bind())
	require.NoError(t, err)
	require.Equal(t, "secret", string(opened))
	_, err = after.Open(t.Context(), old, bind())
	require.ErrorIs(t, err, access.ErrUnknownSealKey)
	_, err = before.Open(t.Context(), again, bind())
	require.ErrorIs(t, err, access.ErrUnknownSealKey)
	// An id that was given another key is a mistake that opens nothing.
	_, err = local(t, key("old", 9)).Open(t.Context(), old, bind())
	require.ErrorIs(t, err, access.ErrNotOpened)
}

func TestKeysThatCannotBeReadAreNamedByPlaceAndNotQuoted(t *testing.T) {
	good := key("k1", 7)
	text := strings.TrimPrefix(good, "k1:")
	for keys, want := range map[string]string{
		"":                                   "key 1: want id:base64",
		text:                                 "key 1: want id:base64",
		":" + text:                           "key 1: want id:base64",
		"a b:" + text:                        "key 1: want id:base64",
		strings.Repeat("i", 65) + ":" + text: "key 1: want id:base64",
		good + ",":                           "key 2: want id:base64",
		good + ",k1:" + text:                 "key 2: its id was given before",
		good + ",k2:" + text[:20]:            "key 2: key: 15 bytes; want 32",
		good + ",k2:" + text + "!":           "key 2: not base64",
		good + ",k2:" + text[:42] + "d=":     "key 2: not base64", // spare bits that are not 0
		good + ",k2:" + text[:43] + "\n=":    "",                  // line ends are skipped
	} {
		_, err := seal.NewLocal(keys)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), text[:8])
	}
	require.Equal(t, "[local sealing keys]", fmt.Sprintf("%+v", local(t, good)))
}

func TestSettingsAskForOneSealerOrNone(t *testing.T) {
	parse := func(env map[string]string, args ...string) *seal.Settings {
		var o seal.Settings
		s := settings.New("x", "x")
		o.Settings(s)
		require.NoError(t, s.Parse(args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, t.Output()))
		return &o
	}
	none, err := parse(nil).Open(aws.Config{}, nil)
	require.NoError(t, err)
	require.True(t, none == nil, "a nil interface, not a nil pointer in one") //nolint:testifylint // Nil would take either.

	s, err := parse(map[string]string{"MYOSIN_SECRET_KEYS": key("k1", 1)}).Open(aws.Config{}, nil)
	require.NoError(t, err)
	sealed, err := s.Seal(t.Context(), []byte("x"), bind())
	require.NoError(t, err)
	_, err = local(t, key("k1", 1)).Open(t.Context(), sealed, bind())
	require.NoError(t, err)

	s, err = parse(map[string]string{"MYOSIN_SECRET_KMS_KEY": "1234, arn:aws:kms:eu-west-1:1:key/5678"}).Open(aws.Config{}, nil)
	require.NoError(t, err)
	require.NotNil(t, s)

	for _, o := range []*seal.Settings{
		parse(map[string]string{"MYOSIN_SECRET_KEYS": key("k1", 1)}, "--secret-kms-key=1234"),
		parse(nil, "--secret-keys=k1"), parse(nil, "--secret-kms-key=alias/x"),
	} {
		s, err := o.Open(aws.Config{}, nil)
		require.Error(t, err)
		require.True(t, s == nil) //nolint:testifylint // as above.
	}
}

func TestHelpDoesNotShowTheKeys(t *testing.T) {
	o := seal.Settings{Keys: key("k1", 1)}
	s := settings.New("x", "x")
	o.Settings(s)
	var out bytes.Buffer
	require.ErrorIs(t, s.Parse([]string{"--help"}, func(string) (string, bool) { return "", false }, &out), settings.ErrHelp)
	require.Contains(t, out.String(), "MYOSIN_SECRET_KEYS")
	require.NotContains(t, out.String(), o.Keys)
}

func FuzzOpen(f *testing.F) {
	l := local(f, key("k1", 1))
	sealed, err := l.Seal(f.Context(), []byte("secret"), bind())
	require.NoError(f, err)
	f.Add(sealed)
	f.Add([]byte{1, 1, 2, 'k', '1', 0xff, 0xff})
	f.Add([]byte{1, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := l.Open(t.Context(), b, bind())
		if err == nil { // the seed, which each process of a fuzzing run makes anew
			require.Equal(t, "secret", string(text))
			return
		}
		require.True(t, errors.Is(err, access.ErrNotOpened) || errors.Is(err, access.ErrUnknownSealKey), "%v", err)
	})
}
