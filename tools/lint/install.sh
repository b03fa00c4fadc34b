#!/usr/bin/env bash
# Builds the pinned linter once, outside the tree, and prints the path of the
# binary. It needs nothing but Go. The version is part of the path, so a bump
# below is all an upgrade takes.
set -euo pipefail

golangci_version=v2.15.0

cache="${XDG_CACHE_HOME:-$HOME/.cache}/myosin/bin"
# A linter built by an older Go refuses newer code: the Go version is in the key.
binary="$cache/golangci-lint-$golangci_version-$(go env GOVERSION)"

if [ ! -x "$binary" ]; then
	echo "building golangci-lint $golangci_version (once, a few minutes)" >&2
	mkdir -p "$cache"
	# Inside the cache, so that the last step is a rename: a broken build or two
	# builds at once leave no half-written binary behind.
	scratch="$(mktemp -d "$cache/build.XXXXXX")"
	trap 'rm -rf "$scratch"' EXIT
	# Not from the tree: its go.mod has no say in the linter's dependencies.
	(cd "$scratch" && GOBIN="$scratch" GOWORK=off CGO_ENABLED=0 GOFLAGS=-buildvcs=false \
		go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$golangci_version") >&2
	mv "$scratch/golangci-lint" "$binary"
fi
echo "$binary"
