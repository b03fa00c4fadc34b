package when_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

const day = 24 * time.Hour

func TestDurationsMayHaveDaysAndWeeks(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0":          0,
		"0s":         0,
		"5s":         5 * time.Second,
		"1h30m":      90 * time.Minute,
		"250ms":      250 * time.Millisecond,
		"3d12h":      3*day + 12*time.Hour,
		"2w":         14 * day,
		"1w1d1h1m1s": 8*day + time.Hour + time.Minute + time.Second,
		"1.5d":       36 * time.Hour,
		"12h3d":      3*day + 12*time.Hour,
		"+5m":        5 * time.Minute,
		"-1d":        -day,
		"520w":       520 * 7 * day,
	} {
		got, err := when.Duration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestDurationsThatMeanNothingAreRefused(t *testing.T) {
	for in, says := range map[string]string{
		"":       "empty",
		"-":      "empty",
		"5":      "no unit",
		"1h5":    "no unit",
		"5x":     "want a duration",
		"d":      "want a duration",
		"1..5d":  "want a duration",
		"--5s":   "want a duration",
		"5 s":    "want a duration",
		"99999w": "292 years",

		"9223372036s9223372036s": "292 years",
	} {
		_, err := when.Duration(in)
		require.ErrorContains(t, err, says, in)
	}
}

func TestWhatGoPrintsIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Filter(func(n int64) bool { return n != -1<<63 }).Draw(t, "d"))
		got, err := when.Duration(d.String())
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
}

func TestTimesHaveAZoneOrCountFromNow(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("x", 7200))
	for in, want := range map[string]string{
		"now":                       "2026-07-01T10:00:00Z",
		"+90m":                      "2026-07-01T11:30:00Z",
		"now+2d":                    "2026-07-03T10:00:00Z",
		"-1d":                       "2026-06-30T10:00:00Z",
		"2027-01-01T09:00:00Z":      "2027-01-01T09:00:00Z",
		"2027-01-01T09:00:00.25Z":   "2027-01-01T09:00:00.25Z",
		"2027-01-01T09:00:00+02:00": "2027-01-01T07:00:00Z",
		"2027-01-01T09:00Z":         "2027-01-01T09:00:00Z",
		"2027-01-01 09:00-01:00":    "2027-01-01T10:00:00Z",
		"1798794000000":             "2027-01-01T09:00:00Z",
	} {
		got, err := when.Time(in, now)
		require.NoError(t, err, in)
		require.Equal(t, want, got.Format(time.RFC3339Nano), in)
	}
	for in, says := range map[string]string{
		"":                    "with its zone",
		"2027-01-01T09:00:00": "with its zone",
		"2027-01-01":          "with its zone",
		"tomorrow":            "with its zone",
		"1798794000":          "13 digits",
		"+5":                  "no unit",
		"now+":                "empty",
		"nowish":              "with its zone",
	} {
		_, err := when.Time(in, now)
		require.ErrorContains(t, err, says, in)
	}
}

func TestDistancesReadLikeSpeech(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0:                       "in 0s",
		450 * time.Millisecond:  "in 450ms",
		4980 * time.Millisecond: "in 5s",
		90 * time.Second:        "in 1m 30s",
		3*day + 12*time.Hour:    "in 3d 12h",
		-2 * time.Hour:          "2h ago",
		84*time.Hour - 1:        "in 3d 12h",
		24*time.Hour - 1:        "in 24h",
		400 * day:               "in 1y 35d",
	} {
		require.Equal(t, want, when.Until(now.Add(d), now))
	}
}

func TestTimesFromNowAreReadInWordsToo(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"in 5m": 5 * time.Minute, "in 1d12h": 36 * time.Hour, "2h ago": -2 * time.Hour} {
		got, err := when.Time(text, now)
		require.NoError(t, err)
		require.Equal(t, now.Add(want), got)
	}
	for _, text := range []string{"in", "in ", "ago", "in 5", "5 ago", "in 5m ago", " ago"} {
		_, err := when.Time(text, now)
		require.Error(t, err, text)
	}
}
