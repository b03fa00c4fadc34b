package embedded

import (
	"maps"
	"slices"
	"strings"
)

const (
	envDataDir = "KUMO_DATA_DIR"
	envFlush   = "KUMO_PERSIST_FLUSH_INTERVAL_MS"
	// flushMs is how much of the newest work a kill can lose, in milliseconds.
	flushMs = "200"
)

// Environ returns the environment that a process with an embedded engine must
// be started with, made from the one it has. kumo reads its data directory and
// region before main begins, and the SDK's variables must not lead a laptop's
// jobs to a real account: profiles, credentials and endpoints are taken out, and
// dummies put in. Whoever finds a difference starts the process again.
func Environ(environ []string, dataDir string) []string {
	want := map[string]string{ //nolint:gosec // dummies: the engine takes any.
		"AWS_ACCESS_KEY_ID":           "any",
		"AWS_SECRET_ACCESS_KEY":       "any",
		"AWS_REGION":                  "us-east-1",
		"AWS_DEFAULT_REGION":          "us-east-1",
		"AWS_CONFIG_FILE":             "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
	if dataDir != "" {
		want[envDataDir], want[envFlush] = dataDir, flushMs
	}
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := want[name]; ours || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "KUMO_") {
			continue
		}
		out = append(out, kv)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		out = append(out, name+"="+want[name])
	}
	return out
}

// Same reports whether two environments hold the same variables.
func Same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
