package trigger

import (
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

func TestPartitionHashIsXXHash64(t *testing.T) {
	for range 1000 {
		id := NewID()
		require.Equal(t, xxhash.Sum64String(id.String()), hash36(id.String()))
	}
}
