package target

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func notice() Notice {
	return Notice{
		Tenant: "acme", Job: "0b7e1f3a", JobName: "Nightly <report> & co", Run: "0b7e1f3a_000001-1", Reason: "connect: refused @here <!channel>\nJob fake",
		Attempts: 5, At: time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600)), URL: "https://myosin.test/runs?a=1&b=2",
	}
}

func slack(t require.TestingT, n Notice) string {
	var got map[string]string
	require.NoError(t, json.Unmarshal(n.Slack(), &got))
	require.Len(t, got, 1)
	return got["text"]
}

func TestANoticeSaysWhatDiedWhyAndHowToRedriveIt(t *testing.T) {
	require.Equal(t, "Job \"Nightly &lt;report&gt; &amp; co\" (0b7e1f3a) of tenant acme: run 0b7e1f3a_000001-1 is dead since 2026-01-02T03:04:05Z, after 5 attempts.\n"+
		"Why: connect: refused @\u200bhere &lt;!channel&gt; Job fake\n"+
		"See: https://myosin.test/runs?a=1&amp;b=2\n"+
		"Once the cause is mended, run it again: `myosin dlq redrive 0b7e1f3a_000001-1`", slack(t, notice()))
	require.JSONEq(t, `{"type":"run.dead","tenant":"acme","job_id":"0b7e1f3a","job_name":"Nightly <report> & co","run_id":"0b7e1f3a_000001-1",
		"reason":"connect: refused @here <!channel>\nJob fake","attempts":5,"at":"2026-01-02T03:04:05Z","url":"https://myosin.test/runs?a=1&b=2",
		"redrive":"myosin dlq redrive 0b7e1f3a_000001-1"}`, string(notice().JSON()))
}

func TestANoticeWithoutNameReasonAndAddressIsStillOne(t *testing.T) {
	n := notice()
	n.JobName, n.Reason, n.URL, n.Attempts, n.Run = "", " ", strings.Repeat("u", maxNoticeURL+1), 1, "a'; rm"
	text := slack(t, n)
	require.Contains(t, text, "Job 0b7e1f3a of tenant acme")
	require.Contains(t, text, "after 1 attempt.")
	require.Contains(t, text, "Why: not recorded\n")
	require.NotContains(t, text, "See:")
	require.Contains(t, text, `redrive 'a'\''; rm'`)
	require.NotContains(t, string(n.JSON()), `"url"`)
}

func TestNoTextOfOthersBreaksANotice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringN(0, -1, -1), rapid.Map(rapid.IntRange(0, 9000), func(n int) string { return strings.Repeat("<&@\xff", n) }))
		n := Notice{
			Tenant: text.Draw(t, "tenant"), Job: text.Draw(t, "job"), JobName: text.Draw(t, "name"), Run: text.Draw(t, "run"),
			Reason: text.Draw(t, "reason"), Attempts: rapid.Int().Draw(t, "attempts"), URL: text.Draw(t, "url"),
		}
		got := slack(t, n)
		require.Less(t, len(got), 4000)
		require.NotContains(t, got, "<")
		require.NotContains(t, got, ">")
		require.LessOrEqual(t, strings.Count(got, "\n"), 3)
		require.Equal(t, 2, strings.Count(got, "`"))
		require.True(t, json.Valid(n.JSON()))
		require.Less(t, len(n.JSON()), 32<<10)
	})
}
