package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal/internal/envelope"
)

func header() envelope.Header {
	return envelope.Header{Kind: envelope.KMS, KeyID: "k1", Wrapped: []byte("wrapped")}
}

func TestTheHeaderIsReadBackAndHeldByTheEncryption(t *testing.T) {
	aead, err := envelope.NewAEAD(make([]byte, envelope.KeySize))
	require.NoError(t, err)
	sealed, err := envelope.Seal(aead, header(), []byte("secret"), nil)
	require.NoError(t, err)
	h, head, rest, err := envelope.Parse(sealed)
	require.NoError(t, err)
	require.Equal(t, header(), h)
	text, err := envelope.Open(aead, head, rest, nil)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))

	for i := range head { // with the right key whatever the header says
		for bit := range 8 {
			changed := bytes.Clone(head)
			changed[i] ^= 1 << bit
			_, err := envelope.Open(aead, changed, rest, nil)
			require.ErrorIs(t, err, access.ErrNotOpened, "byte %d", i)
		}
	}
}

func TestOnlyThisVersionAndWholeHeadersAreRead(t *testing.T) {
	tail := strings.Repeat("x", 28)
	for _, s := range []string{
		"", "\x01", "\x01\x01", "\x00\x01\x01k\x00\x00" + tail, "\x02\x01\x01k\x00\x00" + tail, "\x01\x01\x00\x00\x00" + tail,
		"\x01\x01\x01k\x00\x01" + tail, "\x01\x01\x01k\xff\xff" + tail, "\x01\x01\xff" + tail, "\x01\x01\x01k\x00\x00" + tail[1:],
	} {
		_, _, _, err := envelope.Parse([]byte(s))
		require.ErrorIs(t, err, access.ErrNotOpened, "%q", s)
	}
	_, _, rest, err := envelope.Parse([]byte("\x01\x01\x01k\x00\x00" + tail))
	require.NoError(t, err)
	require.Equal(t, tail, string(rest))
}

func TestWhatTheFormatCannotHoldIsRefused(t *testing.T) {
	aead, err := envelope.NewAEAD(make([]byte, envelope.KeySize))
	require.NoError(t, err)
	for _, h := range []envelope.Header{
		{KeyID: ""}, {KeyID: strings.Repeat("k", envelope.MaxKeyID+1)}, {KeyID: "k", Wrapped: make([]byte, envelope.MaxWrapped+1)},
	} {
		_, err := envelope.Seal(aead, h, nil, nil)
		require.ErrorContains(t, err, "out of range")
	}
	for _, n := range []int{0, 16, 24, 33} {
		_, err := envelope.NewAEAD(make([]byte, n))
		require.Error(t, err, "a key of %d bytes", n)
	}
}
