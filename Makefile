# Everything a contributor runs. Needed: Go (see go.mod) with a C compiler for -race, Node.js 20 or newer with npm, make, bash.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# More flags for go test, such as TESTFLAGS='-run Reshard -v'.
TESTFLAGS ?=
EMULATORS := test/emulators/node_modules/.package-lock.json

.PHONY: help test test-formats bench lint fmt generate check-generated ci emulators

help: ## lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 24

test: emulators ## runs all tests, with the race detector, none left out
	PROTOKINESIS_REQUIRE_EMULATORS=1 go test -race -timeout 15m $(TESTFLAGS) ./...

test-formats: emulators ## runs the system tests in the formats that are not the default, for some 15 minutes
	failed=; \
	for wire in sdk cbor; do \
	  echo "==== $$wire"; \
	  PROTOKINESIS_REQUIRE_EMULATORS=1 PROTOKINESIS_TEST_WIRE=$$wire go test -count=1 -timeout 25m $(TESTFLAGS) ./test || failed+=" $$wire"; \
	done; \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed"; exit 1; fi

bench: ## runs all benchmarks
	go test -run '^$$' -bench . -benchmem -timeout 90m ./...

lint: ## runs golangci-lint, and go vet over the module of the peers
	linter=$$(.ci/tool golangci-lint) && "$$linter" run ./...
	go -C test/peers vet ./...

fmt: ## formats the Go code as the linter wants it
	linter=$$(.ci/tool golangci-lint) && "$$linter" fmt ./...

generate: ## generates the Go code of messages/*.proto
	messages/generate.sh

check-generated: ## fails if the generated code is out of date
	messages/generate.sh --check

ci: ## does what CI does
	.ci/run

emulators: $(EMULATORS) # installs the emulators and sample data of the tests

# npm writes this file last; it is older than the lock when another version was checked out.
$(EMULATORS): test/emulators/package.json test/emulators/package-lock.json
	@for needed in node npm; do \
	  command -v "$$needed" >/dev/null || { \
	    echo "The tests run against emulators of Kinesis and DynamoDB, which need $$needed: install Node.js 20 or newer." >&2; \
	    echo "'go test ./...' works without and says what it leaves out." >&2; \
	    exit 1; \
	  }; \
	done
	cd test/emulators && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
