package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

func TestKeysAreShownOnceListedAndRevoked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		const key = `"id":"K1","tenant":"acme","role":"write","name":"ci","created_at":"2000-01-01T00:00:00Z","expires_at":"2000-03-31T00:00:00Z"`
		r.says("POST /v1/keys", answer{http.StatusCreated, `{` + key + `,"key":"myo_secret"}`})
		r.run("keys", "create", "--role", "write", "--name", "ci", "--expires", "in 90d", "--tenant", "acme").prints(`
id       K1
tenant   acme
role     write
name     ci
expires  2000-03-31T00:00:00.000Z
key      myo_secret
`)
		require.Equal(t, `POST /v1/keys {"tenant":"acme","role":"write","name":"ci","expires_at":"2000-03-31T00:00:00Z"}`, r.asked[0])
		require.Equal(t, "myo_secret", r.run("keys", "create", "--role", "read", "--json").is(cli.ExitOK, "").keys()["key"])
		require.Equal(t, `POST /v1/keys {"role":"read"}`, r.asked[0])
		r.run("keys", "create").is(cli.ExitUsage, `"role"`)
		r.run("keys", "create", "--role", "root").is(cli.ExitUsage, "want one of read, write, admin")
		r.says("GET /v1/keys?tenant=acme", ok(`{"items":[{`+key+`}]}`))
		r.run("keys", "list", "--tenant", "acme").prints(`
ID  TENANT  ROLE   NAME  CREATED                   EXPIRES                   REVOKED
K1  acme    write  ci    2000-01-01T00:00:00.000Z  2000-03-31T00:00:00.000Z  -
`)
		r.says("GET /v1/keys", ok(`{"items":null}`))
		require.Equal(t, "[]\n", r.run("keys", "list", "--json").out)
		r.says("DELETE /v1/keys/K1", ok(`{`+key+`,"revoked_at":"2000-01-01T00:00:00Z"}`))
		r.run("keys", "revoke", "K1").is(cli.ExitUsage, "give --yes")
		r.run("keys", "revoke", "K1", "--yes").prints("revoked K1\n")
	})
}

func TestSecretsAreShownOnceListedAndRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		const secret = `"id":"S1","tenant":"acme","created_at":"2000-01-01T00:00:00Z"`
		r.says("POST /v1/secrets", answer{http.StatusCreated, `{` + secret + `,"secret":"whsec_x"}`})
		r.run("secrets", "create", "--expire-others-in", "1d").prints("id      S1\ntenant  acme\nsecret  whsec_x\n")
		require.Equal(t, `POST /v1/secrets {"expire_others_in":"24h"}`, r.asked[0])
		r.run("secrets", "create", "--tenant", "acme").is(cli.ExitOK, "")
		require.Equal(t, `POST /v1/secrets {"tenant":"acme"}`, r.asked[0])
		r.says("GET /v1/secrets", ok(`{"items":[{`+secret+`}]}`))
		r.run("secrets", "list").prints(`
ID  TENANT  CREATED                   EXPIRES
S1  acme    2000-01-01T00:00:00.000Z  -
`)
		r.says("DELETE /v1/secrets/S1?tenant=acme", answer{http.StatusNoContent, ""})
		r.run("secrets", "delete", "S1").is(cli.ExitUsage, "give --yes")
		require.Equal(t, true, r.run("secrets", "delete", "S1", "--tenant", "acme", "--yes", "--json").is(cli.ExitOK, "").keys()["deleted"])
	})
}

func TestATenantsRecordIsChangedFieldByField(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		const record = `{"id":"acme","contact":{"topic":"arn:x"},"max_concurrent":5,"allow_services":["pay-*"],"rates":{"host:a":2.5,"group:b":1},"updated_at":"1999-12-01T00:00:00Z","version":3}`
		r.says("GET /v1/tenants/acme", ok(record)).says("PUT /v1/tenants/acme", ok(record))
		r.run("tenants", "get", "acme").prints(`
tenant    acme
contact   arn:x
calls     5 at once
services  pay-*
rates     group:b=1 host:a=2.5
changed   1999-12-01T00:00:00.000Z
version   3
`)
		put := func(args ...string) string {
			t.Helper()
			r.run(append([]string{"tenants", "put", "acme"}, args...)...).is(cli.ExitOK, "")
			require.Equal(t, `"3"`, r.headers[1].Get("If-Match"))
			return strings.TrimPrefix(r.asked[1], "PUT /v1/tenants/acme ")
		}
		require.JSONEq(t, `{"contact":{"topic":"arn:x","webhook":"https://h"},"max_concurrent":5,"allow_services":["pay-*"],"rates":{"host:a":2.5,"group:b":1}}`,
			put("--contact-webhook", "https://h"))
		require.JSONEq(t, `{"max_concurrent":9,"allow_services":["a","b"],"allow_ranges":["10.0.0.0/8"],"rates":{"host:x=y":3}}`,
			put("--contact-topic", "", "--max-concurrent", "9", "--allow-service", "a,b", "--allow-range", "10.0.0.0/8", "--rate", "host:x=y=3"))
		require.JSONEq(t, `{"contact":{"topic":"arn:x"},"max_concurrent":5}`, put("--allow-service", "", "--rate", ""))

		r.says("GET /v1/tenants/acme", problem(404, `{"detail":"no such tenant"}`))
		r.run("tenants", "put", "acme", "--max-concurrent", "1").is(cli.ExitOK, "")
		require.Empty(t, r.headers[1].Get("If-Match"), "there was none")
		r.run("tenants", "get", "acme").is(cli.ExitNotFound, "no such tenant")
		r.host.In = strings.NewReader(`{"maxConcurrent":7}`)
		r.run("tenants", "put", "acme", "--file", "-", "--if-version", "4").is(cli.ExitOK, "")
		require.Equal(t, []string{`PUT /v1/tenants/acme {"max_concurrent":7}`}, r.asked)
		require.Equal(t, `"4"`, r.headers[0].Get("If-Match"))
		r.run("tenants", "put", "acme").is(cli.ExitUsage, "nothing to change")
		r.run("tenants", "put", "acme", "-f", "-", "--rate", "a=1").is(cli.ExitUsage, "not both")
		r.run("tenants", "put", "acme", "--rate", "fast").is(cli.ExitUsage, `--rate "fast"`)
		r.says("GET /v1/tenants/acme", problem(403, `{"detail":"your role does not allow this"}`))
		r.run("tenants", "put", "acme", "--max-concurrent", "1").is(cli.ExitDenied, "your role does not allow this")
		require.Len(t, r.asked, 1, "what could not be read is not overwritten")
	})
}

func TestChangesAreListed(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *apiRig) {
		r.says("GET /v1/audit?limit=100&tenant=acme", ok(`{"items":[{"id":"A1","tenant":"acme","at":"1999-12-31T00:00:00Z","subject":"K1","action":"job.pause","object":"J1"}]}`))
		r.run("audit", "list", "--tenant", "acme").prints(`
AT                        SUBJECT  ACTION     OBJECT  DETAIL
1999-12-31T00:00:00.000Z  K1       job.pause  J1      -
`)
	})
}

func TestTheForecastShowsTheMinutesInWhichSomethingIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, r *apiRig) {
		r.says("GET /v1/forecast?from=2000-01-01T01%3A00%3A00Z&minutes=2&service=pay&service=runs", ok(`{"items":[
			{"service":"pay","points":[{"minute":"2000-01-01T01:00:00Z","jobs":0},{"minute":"2000-01-01T01:01:00Z","jobs":12}]},
			{"service":"runs","points":[{"minute":"2000-01-01T01:00:00Z","jobs":3}]}]}`))
		r.run("forecast", "--from", "in 1h", "--minutes", "2", "--service", "pay", "-s", "runs").prints(`
SERVICE  MINUTE             JOBS
pay      2000-01-01T01:01Z  12
runs     2000-01-01T01:00Z  3
`)
		r.says("GET /v1/forecast?minutes=60", ok(`{"items":null}`))
		require.Equal(t, "[]\n", r.run("forecast", "--json").out)
		require.Equal(t, "nothing is due\n", r.run("forecast").err)
	})
}

func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var out bytes.Buffer
	code := cli.Run(t.Context(), cli.Host{Out: &out, Err: &out, Env: func(string) (string, bool) { return "elsewhere", true }}, []string{"docs"})
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, out.String(), string(page), "go run ./tools/myosin docs > tools/myosin/README.md")
	for _, name := range []string{"jobs create", "jobs delete", "runs watch", "dlq redrive", "cron preview", "keys revoke", "secrets create", "tenants put", "audit list", "forecast", "schedule", "triggers redrive"} {
		require.Contains(t, out.String(), "# myosin "+name+"\n")
	}
	require.NotContains(t, out.String(), "elsewhere")
}
