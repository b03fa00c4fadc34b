#!/usr/bin/env bash
# Runs the tests that need more than Go: other engines, real processes, long
# simulations. Each part is one `go test`; it prints its duration and counts, and
# fails if a test failed, if none ran, or if one was skipped that is not listed
# in allowed-skips.txt.
#
#   tools/e2e/run.sh              every part
#   tools/e2e/run.sh stores ...   the parts named
#
# Tests find here, besides credentials that open nothing:
#   MYOSIN_MINISTACK_URL  AWS endpoint of a ministack of this run's own
#   MYOSIN_AWSCLI         path of the aws command
#   MYOSIN_SCHEMATHESIS   path of schemathesis, which fuzzes by an OpenAPI document
#   MYOSIN_E2E            set where tests are to start real processes
set -euo pipefail
cd "$(dirname "$0")/../.."

# The table of parts: name, environment (if any), then what go test is to run.
parts() {
	part stores -run Ministack ./pkg/store/... ./pkg/jobstore/...
	part queues -run Ministack ./pkg/queue/...
	part registry -run Ministack ./pkg/registry/...
	part forecast -run Ministack ./pkg/forecast/...
	part foreign MYOSIN_E2E=1 -run Foreign ./services/standalone/e2e
	part api MYOSIN_E2E=1 -run API ./services/standalone/e2e
	part processes MYOSIN_E2E=1 -run Processes -parallel 2 ./services/standalone/e2e
	part simulation MYOSIN_SIM_SEEDS=1000 -run 'TestSeeds|TestAWorld' ./pkg/simulation
	part runs MYOSIN_SIM_SEEDS=300 -run 'TestSeeds|TestAWorld' ./pkg/simulation/jobs
	part year MYOSIN_YEAR=1 -run LongTime ./pkg/runner
	part cron MYOSIN_CRON_ALL=1 -run TestEveryTransition ./pkg/cron
	part wave MYOSIN_WAVE=1000000 -run TestWave ./pkg/simulation
	part chaos MYOSIN_E2E=1 -run Chaos ./tools/chaos
	part mutants MYOSIN_MUTANTS=1 -run TestMutations ./tools/mutants
}

scratch="$(mktemp -d)"
ministack_pid=""
running="" # process group of the part that runs
stop() {
	if [ -n "$running" ]; then kill -- "-$running" 2>/dev/null || true; fi
	if [ -n "$ministack_pid" ]; then
		kill "$ministack_pid" 2>/dev/null || true
		for _ in $(seq 50); do
			kill -0 "$ministack_pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -9 "$ministack_pid" 2>/dev/null || true
		wait "$ministack_pid" 2>/dev/null || true
		ministack_pid=""
	fi
	rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Python tools live outside the tree, keyed by their pins and the interpreter.
install_tools() {
	local pins=tools/e2e/requirements.txt key lock
	if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
		echo "make e2e needs Python 3 with venv (Debian: apt-get install python3-venv)" >&2
		exit 1
	fi
	key="$(python3 -c 'import hashlib, sys; print("%d.%d-" % sys.version_info[:2] + hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest()[:12])' "$pins")"
	venv="${XDG_CACHE_HOME:-$HOME/.cache}/myosin/e2e-$key"
	mkdir -p "$(dirname "$venv")"
	lock="$venv.lock"
	exec 9>"$lock"
	if command -v flock >/dev/null; then flock 9; fi
	if [ ! -e "$venv/complete" ]; then
		echo "installing ministack, awscli and schemathesis into $venv (once)"
		rm -rf "$venv"
		python3 -m venv "$venv"
		"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$pins"
		touch "$venv/complete"
	fi
	exec 9>&-
}

start_ministack() {
	local port try
	for try in 1 2 3; do # the free port may be taken before it is used
		port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
		(cd "$scratch" && TMPDIR="$scratch" GATEWAY_PORT="$port" BIND_HOST=127.0.0.1 MINISTACK_HOST=127.0.0.1 \
			exec "$venv/bin/ministack") >"$scratch/ministack.log" 2>&1 &
		ministack_pid=$!
		if ready "$port"; then
			export MYOSIN_MINISTACK_URL="http://127.0.0.1:$port"
			return
		fi
		echo "ministack did not come up (try $try); its last lines:" >&2
		tail -n 20 "$scratch/ministack.log" >&2
		kill -9 "$ministack_pid" 2>/dev/null || true
		wait "$ministack_pid" 2>/dev/null || true
		ministack_pid=""
	done
	exit 1
}

# Waits up to a minute for the endpoint, less if the process ends before.
ready() {
	for _ in $(seq 240); do
		kill -0 "$ministack_pid" 2>/dev/null || return 1
		if python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=1)' \
			"http://127.0.0.1:$1/_ministack/ready" 2>/dev/null; then
			return 0
		fi
		sleep 0.25
	done
	return 1
}

chosen=("$@")
known=()
failed=()

# part NAME [VARIABLE=VALUE ...] ARGUMENT-OF-GO-TEST...
part() {
	local name="$1" env=()
	shift
	known+=("$name")
	if [ "${#chosen[@]}" -gt 0 ] && [[ " ${chosen[*]} " != *" $name "* ]]; then return; fi
	while [[ "$1" =~ ^[A-Z_][A-Z0-9_]*= ]]; do
		env+=("$1")
		shift
	done
	echo "--- part $name: go test $*"
	# The report decides; go test's own exit status says nothing of skips.
	# In the background and in a process group of its own: so a signal to this
	# script is heeded at once, and ends all of it.
	set -m
	{ env ${env[@]+"${env[@]}"} go test -json -count=1 -timeout 30m "$@" 2>&1 || true; } |
		"$scratch/report" -part "$name" -allowed tools/e2e/allowed-skips.txt -totals "$scratch/totals" &
	running="$(jobs -p %%)"
	set +m
	wait $! || failed+=("$name")
	running=""
}

go build -o "$scratch/report" ./tools/e2e/report
install_tools
export MYOSIN_AWSCLI="$venv/bin/aws" MYOSIN_SCHEMATHESIS="$venv/bin/schemathesis"
# Nothing here may find its way to a real account.
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL
start_ministack

parts

for name in ${chosen[@]+"${chosen[@]}"}; do
	if [[ " ${known[*]} " != *" $name "* ]]; then
		echo "no part is called $name; there are: ${known[*]}" >&2
		failed+=("$name")
	fi
done
if [ "${#failed[@]}" -gt 0 ]; then
	echo "failed parts: ${failed[*]}" >&2
fi
"$scratch/report" -sum "$scratch/totals"
[ "${#failed[@]}" -eq 0 ]
