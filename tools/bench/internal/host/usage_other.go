//go:build !unix

package host

import "time"

// CPU is the processor time this process has used; not told here.
func CPU() (time.Duration, bool) { return 0, false }
