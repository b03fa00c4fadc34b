package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unreachable is how long a process may go on saying that it is ready when its
// endpoint has gone: 30 s without a reading, and the readings' own timeouts.
const unreachable = time.Minute

func TestProcessesSayThatTheyAreNotReadyWhileTheEndpointIsUnreachable(t *testing.T) {
	needsE2E(t)
	t.Parallel()
	url, err := kumoURL()
	require.NoError(t, err)
	for _, program := range []string{"scheduler", "inbound"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine{name: "kumo", url: url})
			g := newGate(t, strings.TrimPrefix(url, "http://"))
			w.env = environ(g.url(), w.p.Names.Prefix)

			// From the start: it waits for the endpoint and says so meanwhile.
			d := w.launch(program, program, "--member-index=0", "--member-count=1")
			d.unready()
			require.True(t, d.running(), d.state())
			g.set(true)
			d.becomesReady(ready)

			g.set(false)
			reason := d.unready()
			g.set(true)
			d.becomesReady(unreachable)
			t.Attr("reason", strings.ReplaceAll(reason, "\n", "; "))
			d.stop(grace)
		})
	}
}

// becomesReady waits for a 200 of /readyz.
func (d *daemon) becomesReady(within time.Duration) {
	d.t.Helper()
	eventually(d.t, within, 50*time.Millisecond, d.name+" is ready", func() error {
		if !d.running() {
			return finalError{errors.New(d.state())}
		}
		return readyz(d.addr)
	})
}

// unready waits for a 503 of /readyz and returns the reasons it gives.
func (d *daemon) unready() string {
	d.t.Helper()
	var reason string
	eventually(d.t, unreachable, 50*time.Millisecond, d.name+" is not ready, and says why", func() error {
		var answer unreadyError
		switch err := readyz(d.addr); {
		case err == nil:
			return errors.New("ready")
		case !errors.As(err, &answer):
			return err
		case answer.code != http.StatusServiceUnavailable || len(answer.Failing) == 0 || answer.Failing[0].Reason == "":
			return finalError{fmt.Errorf("without a reason: %w", err)}
		default:
			reason = err.Error()
			return nil
		}
	})
	return reason
}
