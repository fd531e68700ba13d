# Everything a developer or CI calls. Each target needs only Go and make:
# what else it takes (HAProxy, Graphite, a C compiler for the race detector)
# is installed from the distribution's packages by test/deps/install when
# missing.

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS     := -s -w $(if $(VERSION),-X main.version=$(VERSION))

# Nothing comes from the test cache (-count=1): it does not know of the programs
# that tests build and run. Packages whose tests run at once, and the time that one may take. The tests
# start real HAProxies and Graphites: more at once only makes them slower.
TEST_P       ?= 2
TEST_TIMEOUT ?= 15m
FUZZ_TIME    ?= 30s
SOAK_TIME    ?= 2h

.PHONY: all build demo convergence test lint bench bench-spoa spoe-faults faults soak fuzz packages packages-test clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/haproxy-weighter ./cmd/haproxy-weighter

demo: build
	@test/deps/install haproxy
	bin/haproxy-weighter demo $(DEMO_FLAGS)

# Policies against each other on a real HAProxy and a real Graphite; takes about
# ten minutes on two cores. CONVERGENCE_FLAGS=--help shows what can be chosen.
convergence:
	@test/deps/install haproxy graphite
	@$(GO) build -o bin/convergence ./test/convergence
	@bin/convergence --plot bin/convergence.svg $(CONVERGENCE_FLAGS)

# On the HAProxy that is installed and on the other versions of Debian's suites;
# with HAPROXY_BIN=/path/to/haproxy on that program only.
test:
	@test/deps/install haproxy graphite compiler luacheck lua prometheus browser lintian rpm man systemd socat curl
	@$(if $(HAPROXY_BIN),,test/deps/haproxy-versions)
	@$(MAKE) --no-print-directory lint
	CGO_ENABLED=1 $(GO) test -race -count=1 -p $(TEST_P) -timeout $(TEST_TIMEOUT) ./...

lint:
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$unformatted" ]; then \
		echo "these files are not as gofmt writes them; run gofmt -w on them:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# What the daemon costs, beside what HAProxy needs for the same commands; then
# the benchmarks of single functions.
bench: build
	@test/deps/install haproxy
	$(GO) run ./test/bench $(BENCH_FLAGS)
	$(GO) test -run '^$$' -bench . -benchmem -timeout $(TEST_TIMEOUT) ./...

# The SPOE agent beside a bare echo of frames, which is the limit, and beside the
# library's own agent; about five minutes.
bench-spoa:
	@test/deps/install haproxy
	@$(GO) build -o bin/benchspoa ./test/benchspoa
	@bin/benchspoa $(BENCH_SPOA_FLAGS)

# What each fault of the SPOE agent costs a connection, in every version of
# HAProxy: the table in docs/spoe.md is written anew.
spoe-faults:
	@test/deps/install haproxy
	@$(if $(HAPROXY_BIN),,test/deps/haproxy-versions)
	$(GO) run ./test/spoefaults -write docs/spoe.md $(SPOE_FAULTS_FLAGS)

# deb, rpm and tar.gz for amd64 and arm64 in bin/packages, the same bytes for the
# same commit; what packaging/build takes from the environment holds here too.
packages:
	@GO='$(GO)' packaging/build

# The packages' life in a Debian that boots with systemd, and the container's
# image; as root, about three minutes, once two more to make two Debians. What
# needs no root, about a minute, is part of "test": go test ./test/packaging
packages-test:
	@test/packaging/lifecycle/run $(PACKAGES_SUITES)
	@test/packaging/container

# Every fault of the matrix on every version of HAProxy, about fifteen minutes:
# the table in docs/reliability.md is written anew. A random walk instead, and again:
#   make faults FAULTS_FLAGS="--walk 30m"
#   make faults FAULTS_FLAGS="--walk 30m --seed 7"
faults:
	@test/deps/install haproxy graphite
	@$(if $(HAPROXY_BIN),,test/deps/haproxy-versions)
	@$(GO) build -o bin/faults ./test/faults
	@bin/faults --write docs/reliability.md $(FAULTS_FLAGS)

# Hours of heavy ordinary work: whether anything grows. A soak of two hours or
# more is put into docs/reliability.md.
soak:
	@test/deps/install haproxy
	@$(GO) build -o bin/faults ./test/faults
	@bin/faults --write docs/reliability.md --soak $(SOAK_TIME) $(SOAK_FLAGS)

# Each fuzz target of each package in turn, for FUZZ_TIME. What is found to be
# interesting is kept in testdata/corpus of its package.
fuzz:
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) $$package; \
			$(GO) run ./test/corpus/keep $$package $$target; \
		done; done

clean:
	rm -rf bin
