# Everything here needs Go; make e2e needs Python 3 with venv as well.
SHELL := /usr/bin/env bash
.DEFAULT_GOAL := help
.PHONY: help run test e2e lint fuzz bench bench-all

ARGS ?=
PARTS ?=
FUZZTIME ?= 20s

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## the platform in one process on 127.0.0.1:8080, AWS endpoint on :4566 (ARGS=--help shows the flags)
	@go build -o bin/standalone ./services/standalone && exec bin/standalone $(ARGS)

test: ## every test that needs nothing but Go
	go test -timeout 5m ./...
	cd tools/bench/peers && go test ./...

e2e: ## the parts that need more: other engines, real processes, long runs (PARTS="stores queues" picks)
	tools/e2e/run.sh $(PARTS)

lint: ## go vet, go.mod tidiness, the rules of the tree, golangci-lint (pinned, built once)
	go vet ./...
	go mod tidy -diff
	cd tools/bench/peers && go vet ./... && go mod tidy -diff
	tools/lint/tree.sh
	linter="$$(tools/lint/install.sh)" && "$$linter" config verify && "$$linter" run ./...

fuzz: ## every fuzz test in turn, FUZZTIME (20s) each
	@set -euo pipefail; \
	grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | \
	while IFS=: read -r file fn; do \
		name="$${fn#func }"; echo "== $$name in $$(dirname "$$file")"; \
		go test "$$(dirname "$$file")" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) </dev/null; \
	done

bench: ## lateness, requests, writes and CPU of the core path, 100 jobs/s for a minute (ARGS="--rate 200 --json"; ARGS=--help)
	@go run ./tools/bench core $(ARGS)

bench-all: ## every run that tools/bench/README.md shows, half an hour, then that page (ARGS="--only wave,idle")
	@go run ./tools/bench all $(ARGS)
