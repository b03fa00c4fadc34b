package app

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/myosin-jobs/myosin/pkg/target"
)

// keys are what the process seals signing secrets and signs callback tokens with.
// They last as long as the data of the embedded engine: beside it in the data
// directory, or for the life of the process.
type keys struct {
	Seal     string `json:"seal"`
	Callback string `json:"callback"`
}

// keysFile lies in the data directory.
const keysFile = "myosin-keys.json"

func newKeys() keys {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return keys{Seal: "standalone:" + base64.StdEncoding.EncodeToString(b[:]), Callback: target.NewSecret().Reveal()}
}

// loadKeys reads the keys of a data directory, or makes them; without a directory
// they are new.
func loadKeys(dir string) (keys, error) {
	if dir == "" {
		return newKeys(), nil
	}
	path := filepath.Join(dir, keysFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		k := newKeys()
		if b, err = json.Marshal(k); err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			return keys{}, fmt.Errorf("keep keys: %w", err)
		}
		return k, nil
	}
	if err != nil {
		return keys{}, fmt.Errorf("read keys: %w", err)
	}
	var k keys
	if err := json.Unmarshal(b, &k); err != nil || k.Seal == "" || k.Callback == "" {
		return keys{}, fmt.Errorf("read keys: %s is damaged: restore it, or remove it with the secrets that were sealed by it", path)
	}
	return k, nil
}
