package target

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Notice tells an owner that a run died. Its parts may come from others: both
// forms bound and clean them. It holds no payload.
type Notice struct {
	Tenant   string
	Job      string // the job's id
	JobName  string // may be empty
	Run      string // the run's id
	Reason   string
	Attempts int
	At       time.Time // when it died
	URL      string    // where the run is shown; left out where empty or over 500 bytes
}

// Bounds of a notice's parts, in bytes. In Slack's form they count once escaped;
// together they stay below the 4,000 characters that Slack recommends.
const (
	maxNoticeID     = 200
	maxNoticeName   = 400
	maxNoticeURL    = 500
	maxNoticeReason = 1500
)

// redrive is the command that runs a dead run again.
func (n Notice) redrive() string {
	id := Excerpt([]byte(n.Run), maxNoticeID)
	if strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}) { // pasted into a shell at night
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return "myosin dlq redrive " + id
}

// Slack returns the body for an incoming webhook of Slack or of what is
// compatible: {"text": …}, under 4,000 bytes of text. Foreign text can neither
// mention anybody nor make links.
func (n Notice) Slack() []byte {
	name := slackText(n.Job, maxNoticeID)
	if n.JobName != "" {
		name = fmt.Sprintf("\"%s\" (%s)", slackText(n.JobName, maxNoticeName), name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Job %s of tenant %s: run %s is dead since %s, after %s.\n",
		name, slackText(n.Tenant, maxNoticeID), slackText(n.Run, maxNoticeID), stamp(n.At), attempts(n.Attempts))
	fmt.Fprintf(&b, "Why: %s\n", slackText(orUnknown(n.Reason), maxNoticeReason))
	if n.URL != "" && len(n.URL) <= maxNoticeURL {
		fmt.Fprintf(&b, "See: %s\n", slackText(n.URL, 2*maxNoticeURL))
	}
	fmt.Fprintf(&b, "Once the cause is mended, run it again: `%s`", slackText(n.redrive(), 2*maxNoticeID))
	return body(map[string]string{"text": b.String()})
}

// JSON returns the notice as an object, for SNS and for webhooks of one's own.
// Its keys are a contract: some may be added, none is renamed.
func (n Notice) JSON() []byte {
	if len(n.URL) > maxNoticeURL {
		n.URL = ""
	}
	return body(struct {
		Type     string `json:"type"`
		Tenant   string `json:"tenant"`
		Job      string `json:"job_id"`
		JobName  string `json:"job_name"`
		Run      string `json:"run_id"`
		Reason   string `json:"reason"`
		Attempts int    `json:"attempts"`
		At       string `json:"at"`
		URL      string `json:"url,omitempty"`
		Redrive  string `json:"redrive"`
	}{
		"run.dead", Excerpt([]byte(n.Tenant), maxNoticeID), Excerpt([]byte(n.Job), maxNoticeID), Excerpt([]byte(n.JobName), maxNoticeName),
		Excerpt([]byte(n.Run), maxNoticeID), Excerpt([]byte(orUnknown(n.Reason)), maxNoticeReason), n.Attempts, stamp(n.At), n.URL, n.redrive(),
	})
}

func body(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // text and numbers always can
		panic(fmt.Sprintf("marshal notice: %v", err))
	}
	return b
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func orUnknown(reason string) string {
	if strings.TrimSpace(reason) == "" {
		return "not recorded"
	}
	return reason
}

// slackText escapes what Slack reads as markup, parts '@' from the name behind it
// (compatible servers mention by plain text) and cuts to limit bytes, between
// characters and escapes. Lines are joined, so that nothing can pose as a line
// of the notice. Source: "Formatting text for app surfaces" in Slack's manual.
func slackText(s string, limit int) string {
	const more = "…"
	var b strings.Builder
	for _, r := range Excerpt([]byte(s), limit+utf8.UTFMax) {
		part := string(r)
		switch r {
		case '&':
			part = "&amp;"
		case '<':
			part = "&lt;"
		case '>':
			part = "&gt;"
		case '@':
			part = "@\u200b"
		case '\n', '\t':
			part = " "
		case '`':
			part = "'"
		}
		if b.Len()+len(part) > limit-len(more) {
			return b.String() + more
		}
		b.WriteString(part)
	}
	return b.String()
}
