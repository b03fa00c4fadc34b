package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysLastAsLongAsTheData(t *testing.T) {
	a, err := loadKeys("")
	require.NoError(t, err)
	b, err := loadKeys("")
	require.NoError(t, err)
	require.NotEqual(t, a, b)

	dir := filepath.Join(t.TempDir(), "data")
	a, err = loadKeys(dir)
	require.NoError(t, err)
	b, err = loadKeys(dir)
	require.NoError(t, err)
	require.Equal(t, a, b)
	info, err := os.Stat(filepath.Join(dir, keysFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(filepath.Join(dir, keysFile), []byte(`{"seal":"x"}`), 0o600))
	_, err = loadKeys(dir)
	require.ErrorContains(t, err, "damaged")
}
