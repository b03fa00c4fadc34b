#!/usr/bin/env bash
# Checks the tree for what no linter knows. Prints every fault, then fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

faults=0
fault() {
	echo "$*" >&2
	faults=$((faults + 1))
}

# Everything git tracks or would track, as it stands in the work tree.
files() {
	git ls-files -co --exclude-standard -- "$@" | while IFS= read -r f; do
		if [ -f "$f" ]; then echo "$f"; fi
	done
}

# The top level holds exactly what a newcomer is told it holds.
while IFS= read -r top; do
	case "$top" in
	.* | services | pkg | terraform | k8s | tools | go.mod | go.sum | Makefile | README.md) ;;
	*) fault "$top: does not belong at the top level" ;;
	esac
done < <(files | cut -d/ -f1 | sort -u)

while IFS= read -r f; do
	# Outside a synctest bubble a sleeping test is slow, and still flaky.
	if [[ "$f" == *_test.go ]]; then
		if grep -q 'time\.Sleep(' "$f" && ! grep -q '"testing/synctest"' "$f"; then
			fault "$f: time.Sleep in a test without testing/synctest"
		fi
	elif [ "$(wc -l <"$f")" -gt 450 ]; then
		fault "$f: $(wc -l <"$f") lines; about 400 is the limit, so split it"
	fi
	case "$(basename "$(dirname "$f")")" in
	util | utils | common | base | helper | helpers | misc) fault "$f: a package is named for what it holds" ;;
	esac
done < <(files '*.go')

while IFS= read -r f; do
	bash -n "$f" || fault "$f: does not parse"
	[ -x "$f" ] || fault "$f: not executable"
done < <(files '*.sh' .ci/run)

unformatted="$(files '*.go' | xargs gofmt -l)"
[ -z "$unformatted" ] || fault "gofmt would change:"$'\n'"$unformatted"

[ "$faults" -eq 0 ]
