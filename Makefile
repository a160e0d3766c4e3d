# Everything here needs Go, make and a shell. What a target installs or starts
# beyond that is said by `make help`. Libraries come from the Go module proxy,
# pinned in go.mod and go.sum, and so does staticcheck.

GO       ?= go
BIN      ?= bin
FUZZTIME ?= 10s
SCALAR   ?= 1.72.1

# How everything is built, tests and the servers that they build included, so that
# no package is compiled in two ways: without this machine's paths, and without
# gRPC, which the library of Google's storage leaves out with this tag. VERSION is
# what `collabd version` says.
TAGS    := disable_grpc_modules
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -tags=$(TAGS)

# Nothing is linked with C. The race detector alone needs it.
export CGO_ENABLED := 0

# Properties are tried with this many cases each.
export RAPID_CHECKS ?= 1000

.DEFAULT_GOAL := help
.PHONY: help build run test test-browser check format vet staticcheck modules race pages renderer bench fuzz

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

build: ## build bin/collabd
	$(GO) build -ldflags "-s -w -X collab/app/assembly.built=$(VERSION)" -o $(BIN)/collabd ./cmd/collabd

run: build ## build the server and start it on SQLite and local files
	@exec $(BIN)/collabd

test: ## run all tests; those on Postgres start temporary servers, those of updaters and of the TypeScript client run Node, those of documents jq and wget, installing the packages postgresql, nodejs, npm, jq and wget where they are missing and one is root; without Node set COLLAB_SKIP_NODE
	$(GO) test -timeout 20m ./...

test-browser: ## run the tests in a browser; starts Chromium, installing the package chromium where it is missing and one is root
	$(GO) test -timeout 20m -tags browser,$(TAGS) ./test/browser/... ./adapters/devidp/...

check: format vet staticcheck modules race ## check format, vet, staticcheck and modules, and run all tests with the race detector (needs a C compiler)

format:
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi; \
	echo "ok	gofmt"

vet:
	$(GO) vet ./...
	$(GO) vet -tags browser,$(TAGS) ./test/browser/... ./adapters/devidp/...
	@echo "ok	vet"

staticcheck:
	$(GO) tool staticcheck ./...
	@echo "ok	staticcheck"

modules:
	$(GO) mod verify

# The tests compare the pages that are printed from code (docs/routes.md,
# docs/profiles.md, docs/states.md) with what they would print.
race:
	CGO_ENABLED=1 $(GO) test -race -timeout 30m ./...

pages: ## print docs/routes.md, docs/profiles.md and docs/states.md anew
	$(GO) test ./adapters/httpapi ./app/assembly ./docs -update

# The page needs nothing else of the package: the standalone script has all of it.
renderer: ## fetch the renderer of the page at /docs anew, in the version SCALAR (1.72.1); needs npm
	@set -e; fetched=$$(mktemp -d); trap 'rm -rf "$$fetched"' EXIT; \
	npm pack --silent --pack-destination "$$fetched" @scalar/api-reference@$(SCALAR) > /dev/null; \
	tar -xzf "$$fetched"/*.tgz -C "$$fetched"; \
	script=dist/browser/standalone.js; \
	sum=$$(sha256sum < "$$fetched/package/$$script" | cut -d ' ' -f 1); \
	gzip -9nc "$$fetched/package/$$script" > adapters/httpapi/renderer/scalar.js.gz; \
	echo "$$sum  @scalar/api-reference@$(SCALAR)/$$script" | tee adapters/httpapi/renderer/scalar.txt

bench: ## measure the server against a bare one; starts both, and a temporary Postgres
	$(GO) run ./test/bench

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done
