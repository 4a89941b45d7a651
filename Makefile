# Bare make prints this help. Everything that is fetched or built by the way lies
# in .cache, or where the go command keeps its own.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

FUZZTIME ?= 30s
SOAK ?= 1h
PREFIX ?= /usr/local
SHARE := $(DESTDIR)$(PREFIX)/share
# The version of a release; empty: that of the commit.
VERSION ?=
GOTEST := .cache/bin/gotest
# All packages, first those whose tests take long.
FIRST := ./process ./queue/embedded ./internal/cli ./internal/daemon ./executortest ./queue
PACKAGES := $(FIRST) ./...
# The packages in which -short leaves something out. The others are the same in make test.
LONG = $(FIRST) $(shell git grep -lE 'testing\.Short\(\)|bullpen/executortest"' -- '*_test.go' ':!bench' ':!tools' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
# The race detector waits for a second at the end of each process, also of workers.
export GORACE ?= atexit_sleep_ms=0
# A cache of our own: entries made in another checkout carry its paths, which the
# rules for paths do not match.
LINT := GOLANGCI_LINT_CACHE=$(CURDIR)/.cache/golangci-lint go tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## print this help
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

# Without C it is one file that runs anywhere, and starts short processes sooner.
.PHONY: build
build: ## build the bullpen command into bin/
	@tools/need.sh go
	CGO_ENABLED=0 go build -o bin/ ./cmd/bullpen

.PHONY: install
install: build ## install the command, its manual pages and completions below PREFIX (/usr/local)
	go -C tools/dist run ./pages -version "$$(bin/bullpen version | cut -d ' ' -f 2)" $(CURDIR)/.cache/pages
	install -D -m 0755 bin/bullpen $(DESTDIR)$(PREFIX)/bin/bullpen
	install -D -m 0644 -t $(SHARE)/man/man1 .cache/pages/man/*
	install -D -m 0644 .cache/pages/completions/bullpen.bash $(SHARE)/bash-completion/completions/bullpen
	install -D -m 0644 .cache/pages/completions/_bullpen $(SHARE)/zsh/site-functions/_bullpen
	install -D -m 0644 .cache/pages/completions/bullpen.fish $(SHARE)/fish/vendor_completions.d/bullpen.fish

.PHONY: main-job
main-job: ## hash every file of the Go source through an elastic pool of Python workers
	@tools/need.sh go python3
	examples/hashtree/run.sh

# All that is built on the way, also by the tests themselves, has the race detector, so
# that nothing is compiled twice.
.PHONY: test
test: export GOFLAGS = $(strip $(shell go env GOFLAGS) -race)
test: $(GOTEST) ## the tests before a commit: Go with the race detector, the Python SDK
	@tools/need.sh go gcc python3
	go vet ./...
	tools/python.sh
	tools/pyclient.sh
	tools/clients.sh
	$(GOTEST) -short -vet=off -timeout 10m $(PACKAGES)

# The tests last, so that their closing lines are the last ones. Without the race
# detector all is as it is released: built without C.
.PHONY: test-ci
test-ci: export CGO_ENABLED = 0
test-ci: $(GOTEST) ## what .ci/run adds to make test: full length, no race detector, benchmarks, a browser
	@tools/need.sh go gcc python3
	tools/browser.sh
	$(GOTEST) plain: -short -vet=off -timeout 20m -bench . -benchtime 1x $(PACKAGES) + \
		race: CGO_ENABLED=1 GOFLAGS="$(strip $(shell go env GOFLAGS) -race)" -vet=off -timeout 20m $(LONG)

.PHONY: clients
clients: ## install the runtime clients of AWS Lambda in all languages, whose tests are skipped without them
	@tools/need.sh python3
	tools/clients.sh all

.PHONY: test-all
test-all: $(GOTEST) ## the same with the long tests, three times, and every fuzz test
	@tools/need.sh go gcc python3 curl
	go vet ./...
	go -C tools vet ./gotest ./vm/...
	go -C tools/dist vet ./...
	go -C tools/dist test ./...
	tools/python.sh
	tools/pyclient.sh
	tools/clients.sh all
	tools/browser.sh
	tools/fuzz.sh $(FUZZTIME)
	tools/openapi/run.sh 200
	BULLPEN_LONG=1 $(GOTEST) -timeout 60m -run TestFiftyYears ./internal/schedule
	BULLPEN_LONG=1 $(GOTEST) -race -count=3 -timeout 60m ./...

.PHONY: test-vm
test-vm: ## run the Linux tests in a virtual machine with cgroup v2 only
	@tools/need.sh go
	go -C tools vet ./vm/...
	go -C tools test ./vm/...
	tools/vm.sh

.PHONY: race
race: $(GOTEST) ## run the Go tests ten times with the race detector
	@tools/need.sh go gcc
	$(GOTEST) -race -count=10 -timeout 60m ./...

.PHONY: chaos
chaos: $(GOTEST) ## the long tests of the durable queue: kills, power cuts, damage, poison (some as root only)
	@tools/need.sh go gcc
	BULLPEN_LONG=1 $(GOTEST) -race -v -timeout 60m -run 'Chaos|Power|Damage|Poison' ./queue/embedded

.PHONY: soak
soak: ## an hour of everything at once for the daemon: submit, cancel, scale, reload, kill (SOAK=1h)
	@tools/need.sh go gcc
	BULLPEN_SOAK=$(SOAK) go test -v -count=1 -timeout 0 -run TestSoak ./internal/daemon/soak

.PHONY: browser
browser: ## test the dashboard in headless Chromium against a real daemon
	@tools/need.sh go python3
	tools/browser.sh

.PHONY: openapi
openapi: ## drive the daemon's API from docs/openapi.yaml by schemathesis
	@tools/need.sh go python3 curl
	tools/openapi/run.sh

.PHONY: lint
lint: ## check the style (builds golangci-lint at first use, in a minute or two)
	@tools/need.sh go
	$(LINT) run ./...
	@go -C tools/promql run . ../..

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (30s)
	@tools/need.sh go
	tools/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## run the pools side by side with their peers (about an hour; see bench/README.md)
	@tools/need.sh go gcc python3
	go -C bench run ./cmd/bench $(BENCHFLAGS)

.PHONY: cross
cross: ## build and vet for Linux, macOS and Windows
	@tools/need.sh go
	tools/cross.sh

.PHONY: dist
dist: ## build the files of a release into dist/ (VERSION=v1.2.3)
	@tools/need.sh go git python3
	tools/dist/dist.sh dist $(VERSION)

.PHONY: dist-try
dist-try: dist ## build the files of a release and try each of them
	tools/dist/try.sh dist $(VERSION)

$(GOTEST): $(wildcard tools/gotest/*.go) tools/go.mod
	@tools/need.sh go
	go -C tools test ./gotest
	go -C tools build -o ../$(GOTEST) ./gotest
