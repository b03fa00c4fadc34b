package target

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawSecret(t *rapid.T) Secret {
	key := rapid.SliceOfN(rapid.Byte(), minSecret, maxSecret).Draw(t, "key")
	s, err := ParseSecret(secretPrefix + base64.StdEncoding.EncodeToString(key))
	require.NoError(t, err)
	return s
}

func TestTheSpecificationsOwnLibraryVerifiesWhatIsSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := []Secret{drawSecret(t), drawSecret(t)}
		id := rapid.StringMatching(`[a-zA-Z0-9_-]{1,40}`).Draw(t, "id")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		now := time.Now()
		h := http.Header{}
		h.Set(HeaderWebhookID, id)
		h.Set(HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		h.Set(HeaderWebhookSignature, Sign(secrets, id, now, body))
		for _, s := range secrets {
			v, err := standardwebhooks.NewWebhook(s.Reveal())
			require.NoError(t, err)
			require.NoError(t, v.Verify(body, h), "during a rotation either secret verifies")
			require.Error(t, v.Verify(append(body, 'x'), h))
		}
		stranger, err := standardwebhooks.NewWebhook(NewSecret().Reveal())
		require.NoError(t, err)
		require.Error(t, stranger.Verify(body, h))
	})
}

func TestSecretsSurviveBeingShownAndParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSecret(t)
		back, err := ParseSecret(s.Reveal())
		require.NoError(t, err)
		require.True(t, s.Equal(back))
		require.False(t, s.Equal(NewSecret()))
	})
	require.Len(t, NewSecret().key, newSecret)
}

func TestMalformedSecretsAreRefusedWithoutBeingRepeated(t *testing.T) {
	for _, s := range []string{"", "sesame", "whsec_", "whsec_sesame!", "whsec_c2VzYW1l", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		_, err := ParseSecret(s)
		require.Error(t, err, s)
		require.NotContains(t, err.Error(), "sesame")
	}
}

func TestSecretsAndTokensPrintRedacted(t *testing.T) {
	s := NewSecret()
	signer, err := NewSigner(s)
	require.NoError(t, err)
	tok := signer.Token("run", time.Unix(1, 0))
	r := Request{Method: "POST", URL: "https://example.com/p?password", RunID: "run1", Secrets: []Secret{s}, Token: tok, Body: []byte("payload"), Header: map[string]string{"Authorization": "password"}}
	var out bytes.Buffer
	for _, v := range []any{s, &s, tok, []Secret{s}, map[string]Secret{"a": s}, struct {
		S Secret
		T Token
	}{s, tok}, r} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb, v)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	enc, err := json.Marshal([]any{s, tok})
	require.NoError(t, err)
	out.Write(enc)
	text := out.String()
	require.Contains(t, text, redacted)
	require.Contains(t, text, "run1")
	for _, leak := range []string{strings.TrimPrefix(s.Reveal(), secretPrefix), tok.Reveal(), fmt.Sprintf("%x", s.key), fmt.Sprint(s.key), "payload", "password"} {
		require.NotContains(t, text, leak)
	}
}

func TestTokensAreGoodForTheirRunUntilTheyExpire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, fresh := drawSecret(t), drawSecret(t)
		run := rapid.StringMatching(`[a-z0-9_-]{1,40}`).Draw(t, "run")
		expires := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "expires"), 0)
		before, err := NewSigner(old)
		require.NoError(t, err)
		during, err := NewSigner(fresh, old)
		require.NoError(t, err)
		after, err := NewSigner(fresh)
		require.NoError(t, err)

		tok := ReadToken(before.Token(run, expires).Reveal())
		require.NoError(t, before.Verify(tok, run, expires))
		require.NoError(t, during.Verify(tok, run, expires), "an old key is accepted during rotation")
		require.ErrorIs(t, before.Verify(tok, run, expires.Add(time.Second)), ErrTokenExpired)
		require.ErrorIs(t, before.Verify(tok, run+"x", expires), ErrToken)
		require.NoError(t, after.Verify(during.Token(run, expires), run, expires), "the first key signs")
		if !old.Equal(fresh) {
			require.ErrorIs(t, after.Verify(tok, run, expires), ErrToken)
		}

		// No change of any byte leaves it good.
		b := []byte(tok.Reveal())
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		require.ErrorIs(t, before.Verify(ReadToken(string(b)), run, time.Unix(0, 0)), ErrToken)
	})
}

func TestOtherTextsAreNoTokens(t *testing.T) {
	s, err := NewSigner(NewSecret())
	require.NoError(t, err)
	for _, v := range []string{"", "mct1_", "mct1__", "mct1_1_", "mct1_+1_AAAA", "mct1_99999999999999999999_AAAA", s.Token("r", time.Unix(9, 0)).Reveal() + "="} {
		require.ErrorIs(t, s.Verify(ReadToken(v), "r", time.Unix(0, 0)), ErrToken, v)
	}
	_, err = NewSigner()
	require.Error(t, err)
	_, err = NewSigner(Secret{})
	require.Error(t, err)
}
