package dynamostore

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// codec builds and reads items. Its compressor is shared: EncodeAll and
// DecodeAll may be called concurrently.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// minZip is the smallest payload worth trying: a frame costs some 13 bytes.
const minZip = 64

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(trigger.MaxPayload))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderMaxMemory(trigger.MaxPayload), zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

// pack compresses a payload where that makes the item smaller: the flag takes
// two bytes.
func (c *codec) pack(payload []byte) (body []byte, zipped bool) {
	if len(payload) < minZip {
		return payload, false
	}
	packed := c.enc.EncodeAll(payload, make([]byte, 0, len(payload)/2))
	if len(packed)+2 >= len(payload) {
		return payload, false
	}
	return packed, true
}

// unpack undoes pack. What would grow beyond trigger.MaxPayload is an error.
func (c *codec) unpack(body []byte, zipped bool) ([]byte, error) {
	if !zipped {
		return body, nil
	}
	payload, err := c.dec.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if len(payload) > trigger.MaxPayload {
		return nil, fmt.Errorf("payload: %d bytes unpacked; at most %d", len(payload), trigger.MaxPayload)
	}
	return payload, nil
}
