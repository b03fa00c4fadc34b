package trigger_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestExamplesInTheWireContractAreTrue(t *testing.T) {
	b, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	page := string(b)

	body := regexp.MustCompile(`(?s)--message-body '(.*?) }' *\n`).FindStringSubmatch(page)
	require.Len(t, body, 2)
	// The shell puts the payload in.
	message := regexp.MustCompile(`'"\$\(.*?\)"'`).ReplaceAllString(body[1]+" }", "eyJvcmRlciI6NDJ9")
	got, err := trigger.DecodeInbound([]byte(message), submitted, func(time.Time) int { return trigger.DefaultPartitions })
	require.NoError(t, err)
	require.JSONEq(t, `{"order":42}`, string(got.Payload))

	for _, figure := range []string{
		"`" + got.Key().P() + "`", "`" + got.Key().S() + "`",
		trigger.KeyedID("payments", "", "order-42").String(),
	} {
		require.Contains(t, page, figure)
	}
	for _, attribute := range []string{
		trigger.AttrID, trigger.AttrDue, trigger.AttrName, trigger.AttrTenant, trigger.AttrEncoding, trigger.AttrTraceparent,
	} {
		require.Contains(t, page, "`"+attribute+"`")
	}
	h := got.Handle()
	h.Service = strings.Repeat("s", trigger.MaxService)
	require.Len(t, h.String(), 100, "the longest handle, as the page says")
}
