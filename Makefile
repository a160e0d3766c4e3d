# Everything here needs Go, make and a shell. What a target installs or starts
# beyond that is said by `make help`. Libraries come from the Go module proxy,
# pinned in go.mod and go.sum, and so does staticcheck.

GO       ?= go
BIN      ?= bin
FUZZTIME ?= 10s
SCALAR   ?= 1.72.1
DURATION ?= 10m
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
CLIENTS   := $(PLATFORMS) windows/amd64 windows/arm64

# How everything is built, tests and the servers that they build included, so that
# no package is compiled in two ways: without this machine's paths, without gRPC,
# which the library of Google's storage leaves out with the first tag, and without
# the pages about it, whose templates make the linker keep all methods. VERSION
# stands in for the version of app/assembly/version.go.
NUMBER  := $(shell sed -n 's/^const number = "\(.*\)"/\1/p' app/assembly/version.go)
TAGS    := disable_grpc_modules,grpcnotrace
LINK    := -s -w -X collab/app/assembly.built=$(VERSION) -X main.version=$(or $(VERSION),$(NUMBER))
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -tags=$(TAGS)

# Nothing is linked with C. The race detector alone needs it.
export CGO_ENABLED := 0

# All checks of staticcheck but those about the form of comments and names, which
# go vet and readers decide.
CHECKS := all,-ST1000,-ST1003,-ST1020,-ST1021,-ST1022

# Properties are tried with this many cases each, with ten times as many in a soak.
export RAPID_CHECKS ?= 100

# The packages that take longest come first, so that the others run beside them: one
# more at once than there are processors, as they wait a lot.
ATONCE   := -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PACKAGES := $(ATONCE) ./test/limits ./test/integration ./adapters/gormdb ./test/script ./...

.DEFAULT_GOAL := help
.PHONY: help build run release test soak test-browser check format vet staticcheck modules race pages renderer bench weigh weigh-cold fuzz cluster storm

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

build: ## build bin/collabd, the server, and bin/collab, the client
	$(GO) build -ldflags "$(LINK)" -o $(BIN)/collabd ./cmd/collabd
	$(GO) build -ldflags "$(LINK)" -o $(BIN)/collab ./cmd/collab

run: ## build the server and start it on SQLite and local files
	@echo "Building $(BIN)/collabd, which takes minutes the first time and a second when nothing has changed."
	@$(MAKE) --no-print-directory --silent build
	@exec $(BIN)/collabd

cluster: build ## start three servers behind a balancer with Postgres, NATS and an object store on loopback, until Ctrl-C; installs the package postgresql where it is missing and one is root, and builds versitygw once
	$(GO) build -o $(BIN)/cluster ./test/cluster/run
	@exec $(BIN)/cluster -binary $(BIN)/collabd

SBOM := $(GO) run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin -json -licenses=false -noserial

# Archives are for the platforms that are built; the one that tests run on is Linux.
release: ## build archives of collabd for Linux and macOS, and of collab with its manual pages and completions for these and Windows, as dist/NAME_VERSION_OS_ARCH.tar.gz, lists of the modules in each (CycloneDX), and dist/SHA256SUMS; and try the build of the server for Windows
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/collabd
	@set -e; rm -rf dist; mkdir dist; \
	version=$(or $(VERSION),$(NUMBER)); \
	$(GO) run -ldflags "$(LINK)" ./cmd/collab manual dist; \
	pack() { \
		program=$$1; shift; name=$${program}_$${version}_$$(echo $$platform | tr / _); mkdir dist/$$name; \
		file=dist/$$name/$$program; case $$platform in windows/*) file=$$file.exe;; esac; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -ldflags "$(LINK)" -o $$file ./cmd/$$program; \
		$(SBOM) -version v$$version -output dist/$$name.cdx.json $$file; \
		cp -R LICENSE CHANGELOG.md "$$@" dist/$$name; \
		tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$$(git log -1 --format=%ct)" -cf - $$name | gzip -9n > dist/$$name.tar.gz; \
		rm -r dist/$$name; echo "ok	dist/$$name.tar.gz"; \
	}; \
	for platform in $(PLATFORMS); do pack collabd README.md docs/deploy; done; \
	for platform in $(CLIENTS); do pack collab docs/cli.md docs/client.md dist/man dist/completions; done; \
	rm -r dist/man dist/completions; \
	cd dist; sha256sum * > SHA256SUMS

test: ## run all tests; those on Postgres start temporary servers, those of updaters and of the OpenAPI document run Node, those of documents jq and wget, installing the packages postgresql, pgbouncer, nodejs, npm, jq and wget where they are missing and one is root; without Node set COLLAB_SKIP_NODE; those of object stores build versitygw once, without it set COLLAB_SKIP_S3; those beside the previous release build it once from the history of the repository, and are skipped where that is missing
	$(GO) test -vet=off -timeout 20m $(PACKAGES)

# What bounds how long one organisation waits for another runs alone, before the rest.
soak: ## run the tests that repeat what they try, or check properties, ten times as often as make test does; the others it leaves out
	@set -e; more=$$($(GO) run ./test/soak/scaled); export COLLAB_SOAK=1 RAPID_CHECKS=1000; \
	$(GO) test -vet=off -timeout 40m $${more%% ./*} ./test/limits; \
	$(GO) test -vet=off -timeout 40m $(ATONCE) $$(echo "$$more" | sed 's|\./test/limits||')

storm: ## run a cluster under load of all kinds while servers are killed, connections break and the database fails over, then check its invariants: DURATION=10m, SEED=n as an earlier run printed it
	COLLAB_STORM=$(DURATION) COLLAB_SEED=$(SEED) $(GO) test -vet=off -count=1 -timeout 0 -v -run '^TestInvariantsHoldAfterFaultsUnderLoad$$' ./test/storm

test-browser: ## run the tests in a browser, those that failed once more and alone; starts Chromium and takes axe-core from npm, installing the packages chromium, nodejs and npm where they are missing and one is root
	@out=$$(mktemp); browser="$(GO) test -vet=off -timeout 30m -tags browser,$(TAGS) ./test/browser"; \
	if $$browser >$$out 2>&1; then cat $$out; rm $$out; else \
		cat $$out; failed=$$(sed -n 's/^--- FAIL: \([A-Za-z0-9_]*\).*/\1/p' $$out | paste -sd '|' -); rm $$out; \
		test -n "$$failed" && echo "again, and alone: $$failed" && $$browser -count=1 -run "^($$failed)$$"; fi

# The race detector waits a lot, and the analyses run beside it.
check: format modules ## check format, vet, staticcheck and modules, and test concurrent code with the race detector (needs a C compiler)
	@$(MAKE) --no-print-directory -j 2 race vet staticcheck

format:
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi; \
	echo "ok	gofmt"

# Tests run on Linux. For the other systems the client is built, and its packages are vetted with those tests that start
# no server, which would be compiled for each.
vet:
	$(GO) vet ./...
	$(GO) vet -tags browser,$(TAGS) ./test/browser
	@set -e; for platform in $(CLIENTS); do GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -o /dev/null ./cmd/collab; done
	@set -e; for system in windows darwin; do export GOOS=$$system; $(GO) vet $$($(GO) list -deps ./cmd/collab | grep '^collab/'); done
	@echo "ok	vet"

staticcheck:
	$(GO) tool staticcheck -checks $(CHECKS) ./...
	@echo "ok	staticcheck"

modules:
	$(GO) mod verify

# Nothing in domain runs at once, and the other directories of test hold documents, clients
# and tools. ./test/doctor has the checks of the command doctor, which run at once. Of
# adapters and app it is the packages whose files, those of tests included, start
# goroutines or servers, pass or lock something, or use what is under test. More cases
# of a property show no more races.
race: export RAPID_CHECKS = 20
race:
	@set -e; concurrent=$$(grep -lrE --include='*.go' '^[[:space:]]*go |\.Go\(|chan |"sync|"collab/test/|net/http/httptest' adapters app | xargs -n1 dirname | sort -u | sed 's|^|./|'); \
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 30m $(ATONCE) ./test/integration ./test/script ./test/limits ./test/harness/... ./test/doctor $$concurrent

pages: ## bundle the console, and print docs/cli.md, docs/routes.md, docs/profiles.md, docs/states.md, docs/scenarios.md and the tables of docs/scale.md anew
	$(GO) generate ./adapters/console
	$(GO) test ./adapters/apiclient ./adapters/httpapi ./app/assembly ./cmd/collab ./docs -update
	$(GO) test ./test/harness/scenario -run TestThePageOfScenariosIsTrue -update
	$(GO) run ./test/scale

# The page needs nothing else of the package: the standalone script has all of it.
renderer: ## fetch the renderer of the page at /docs anew, in the version SCALAR (1.72.1); needs npm
	@set -e; fetched=$$(mktemp -d); trap 'rm -rf "$$fetched"' EXIT; \
	npm pack --silent --pack-destination "$$fetched" @scalar/api-reference@$(SCALAR) > /dev/null; \
	tar -xzf "$$fetched"/*.tgz -C "$$fetched"; \
	script=dist/browser/standalone.js; \
	sum=$$(sha256sum < "$$fetched/package/$$script" | cut -d ' ' -f 1); \
	gzip -9nc "$$fetched/package/$$script" > adapters/httpapi/renderer/scalar.js.gz; \
	echo "$$sum  @scalar/api-reference@$(SCALAR)/$$script" | tee adapters/httpapi/renderer/scalar.txt

bench: ## measure the server against a bare one and write docs/performance.md; starts both, a temporary Postgres and nginx, installing the package nginx-light where it is missing and one is root; endurance, and HTTP/2 where there is no nginx, are left out, and what the page says of them stays; flags of test/bench in BENCH, such as "-only files" or "-only endurance"
	$(GO) run ./test/bench -page docs/performance.md $(BENCH)

weigh: build ## compare binary, modules, idle memory and time to start with the limits of test/weigh/limits
	$(GO) run ./test/weigh -binary $(BIN)/collabd

weigh-cold: ## build and start the server in empty cache directories and print what that takes, by module; fetches all libraries
	$(GO) run ./test/weigh -cold

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done
