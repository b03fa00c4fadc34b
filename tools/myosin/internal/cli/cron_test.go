package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

func TestAPreviewMarksWhatTheClockDoesToASchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		spring := []string{"cron", "preview", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-27T00:00:00Z", "--count", "2"}
		r.run(spring...).prints(`
#  LOCAL                           ZONE  UTC                   NOTE
1  Sat 2027-03-27 02:30:00 +01:00  CET   2027-03-27T01:30:00Z  -
-  Sun 2027-03-28 03:00:00 +02:00  CEST  2027-03-28T01:00:00Z  the clock goes forward by 1h
2  Sun 2027-03-28 03:00:00 +02:00  CEST  2027-03-28T01:00:00Z  gap: the clock jumps over 1 wall time, which run here, once
`).is(cli.ExitOK, "warning: on 2027-03-28 02:00-03:00 does not exist in Europe/Berlin")
		r.run(append(spring, "--gap", "skip")...).prints(`
#  LOCAL                           ZONE  UTC                   NOTE
1  Sat 2027-03-27 02:30:00 +01:00  CET   2027-03-27T01:30:00Z  -
-  Sun 2027-03-28 03:00:00 +02:00  CEST  2027-03-28T01:00:00Z  the clock goes forward by 1h
-  Sun 2027-03-28 03:00:00 +02:00  CEST  2027-03-28T01:00:00Z  skipped: the clock jumps over 1 wall time
2  Mon 2027-03-29 02:30:00 +02:00  CEST  2027-03-29T00:30:00Z  -
`)
		autumn := []string{"cron", "preview", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-10-30T12:00:00Z", "-n", "2"}
		r.run(autumn...).prints(`
#  LOCAL                           ZONE  UTC                   NOTE
1  Sun 2027-10-31 02:30:00 +02:00  CEST  2027-10-31T00:30:00Z  fold: the first of two
-  Sun 2027-10-31 02:00:00 +01:00  CET   2027-10-31T01:00:00Z  the clock goes back by 1h
2  Mon 2027-11-01 02:30:00 +01:00  CET   2027-11-01T01:30:00Z  -
`)
		r.run(append(autumn, "--fold", "both")...).prints(`
#  LOCAL                           ZONE  UTC                   NOTE
1  Sun 2027-10-31 02:30:00 +02:00  CEST  2027-10-31T00:30:00Z  fold: the first of two
-  Sun 2027-10-31 02:00:00 +01:00  CET   2027-10-31T01:00:00Z  the clock goes back by 1h
2  Sun 2027-10-31 02:30:00 +01:00  CET   2027-10-31T01:30:00Z  fold: the second of two
`)
		// Midnight is where the gap ends: the run is regular, and takes the lost ones in or not.
		cairo := []string{"cron", "preview", "0 0,1 * * *", "--tz", "Africa/Cairo", "--from", "2027-04-29T12:00:00Z", "-n", "1"}
		require.Contains(t, r.run(cairo...).is(cli.ExitOK, "").out, "gap: the clock jumps over 1 wall time")
		require.Contains(t, r.run(append(cairo, "--gap", "skip")...).is(cli.ExitOK, "").out, "skipped before it: the clock jumps over 1 wall time")
	})
}

func TestAPreviewOfFarApartRunsDoesNotTellEveryChangeOfTheClock(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *apiRig) {
		r.run("cron", "preview", "0 0 29 2 *", "--tz", "Europe/Berlin", "-n", "2", "--from", "2023-12-31T00:00:00Z").prints(`
#  LOCAL                           ZONE  UTC                   NOTE
1  Thu 2024-02-29 00:00:00 +01:00  CET   2024-02-28T23:00:00Z  -
-  Sun 2027-10-31 02:00:00 +01:00  CET   2027-10-31T01:00:00Z  the clock goes back by 1h, the last of 8 changes
2  Tue 2028-02-29 00:00:00 +01:00  CET   2028-02-28T23:00:00Z  -
`)
	})
}

func TestAPreviewIsForScriptsToo(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.run("cron", "preview", "0 9 * * 1-5", "-n", "1", "--tz", "Asia/Ho_Chi_Minh", "--from", "in 1d", "-o", "json").prints(
			`{"expr":"0 9 * * 1-5","tz":"Asia/Ho_Chi_Minh","fires":[{"kind":"run","at":"2000-01-03T02:00:00Z","local":"2000-01-03T09:00:00+07:00",` +
				`"offset":"+07:00","abbreviation":"+07"}],"warnings":[]}` + "\n")
		require.Empty(t, r.asked, "no service is asked")
		require.Contains(t, r.run("cron", "preview", "* 0 * * *", "--json").out, `"code":"every_minute"`)
		for _, tc := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"0 25 * * *"}, cli.ExitRefused, `EXPR: cron: hour "25": 25 is outside the limits 0-23`},
			{[]string{"0 0 30 2 *"}, cli.ExitRefused, "never fires"},
			{[]string{"@daily", "--tz", "Europe/Berlni"}, cli.ExitRefused, "--tz: cron: unknown time zone \"Europe/Berlni\"; did you mean Europe/Berlin?"},
			{[]string{"@daily", "--count", "0"}, cli.ExitUsage, "--count 0: want 1 or more"},
			{[]string{"@daily", "--count", "10001"}, cli.ExitUsage, "want 10000 or less"},
			{[]string{"@daily", "--gap", "jump"}, cli.ExitUsage, "want one of shift, skip"},
			{[]string{"0", "9", "*", "*", "*"}, cli.ExitUsage, `unexpected argument "9"`},
		} {
			require.Empty(t, r.run(append([]string{"cron", "preview"}, tc.args...)...).is(tc.code, tc.says).out)
		}
	})
}
