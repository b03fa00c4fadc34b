package jobsapi

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Duration is a time.Duration as the API writes it: "30s", "1h30m".
type Duration time.Duration

// durationPattern is what a duration of the API looks like. The tags of the
// types repeat it.
const durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`

var errDuration = errors.New("not a duration such as 30s, 5m or 36h")

// ParseDuration reads a duration of the API; negative ones and numbers
// without a unit, but for 0, are refused.
func ParseDuration(s string) (Duration, error) {
	ok, err := regexp.MatchString(durationPattern, s)
	if err != nil || !ok || len(s) > 64 {
		return 0, errDuration
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errDuration
	}
	return Duration(d), nil
}

// String returns the shortest spelling.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 {
		return nil, fmt.Errorf("duration %s is negative", d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}
