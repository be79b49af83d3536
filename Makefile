# Every target works on a machine with nothing but Go; `make lint` installs
# its tools into .cache by itself.
GO       ?= go
CACHE    := $(CURDIR)/.cache
BINARIES := $(CURDIR)/bin

.PHONY: build release site test test-all race lint fuzz bench demo golden cluster cluster-down clean

build: ## bin/atoll, which holds atoll-full, atoll-guest, atoll-egress, atoll-sftp, atoll-tool, atoll-worker and atoll-python
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(CACHE)/helpers/ ./cmd/atoll-full ./cmd/atoll-guest ./cmd/atoll-egress ./cmd/atoll-sftp ./cmd/atoll-tool ./cmd/atoll-worker ./cmd/atoll-python
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BINARIES)/ ./cmd/atoll
	$(GO) run ./internal/helper/pack $(BINARIES)/atoll $(CACHE)/helpers/atoll-full $(CACHE)/helpers/atoll-guest $(CACHE)/helpers/atoll-egress $(CACHE)/helpers/atoll-sftp $(CACHE)/helpers/atoll-tool $(CACHE)/helpers/atoll-worker $(CACHE)/helpers/atoll-python

release: ## everything of a release, in dist: make release VERSION=v1.2.3 [KEY=ssh-key] (docs/release.md)
	$(GO) run ./cmd/internal/release -version "$(VERSION)" $(if $(KEY),-key "$(KEY)") $(RELEASE_FLAGS)

site: ## the documentation site, in dist/site; VERSION names its directory
	$(GO) run ./cmd/internal/site $(if $(VERSION),-version "$(VERSION)")

test: ## the logic tier, which needs nothing but Go: minutes; what must pass before a commit
	VET=$$($(GO) tool -n vet) $(GO) vet -vettool=$(CURDIR)/scripts/vet ./...
	GO="$(GO)" ./scripts/test logic

test-all: ## everything real as well: bash and GNU tools, engines, clusters, VMs, browsers, agents (docs/testing.md)
	GO="$(GO)" ./scripts/test all

RACE_LOGIC := ./agent ./vfs ./shell ./client ./driver/virtual ./internal/agents/tool ./internal/agents/turn ./internal/api ./internal/api/mcp \
	./internal/egress/... ./internal/fleet ./internal/fleet/identity ./internal/guest/sshd ./internal/guest/vt ./internal/image ./internal/preview/... ./internal/project \
	./internal/state/statedir ./internal/unix/kernel ./internal/vm/rootdisk ./internal/vm/virtiofs ./internal/wire
RACE_REAL := ./driver/microvm ./driver/namespace ./internal/guest ./internal/guest/shellexec ./internal/isolation/cgroup ./internal/isolation/jail \
	./internal/vm/hypervisor ./internal/vm/vminit
# Tests of size, of output and of what git does, in which nothing meets: the detector makes them last minutes.
RACE_SKIP := FuzzExecute|TestSync$$|TestUpdate$$|TestUpdateWithoutAWire|TestLedger$$|TestLFS|TestGitDirElsewhere|TestLies$$|TestMerge$$|TestAuditIsBounded|TestAuditOfOneOwner|TestCarryIn|TestEventsAreBounded|TestEventsOfOneOwner|TestHistoryResponseIsBounded|TestJoinOver|TestMoreThanIsTaken|TestNotCertain|TestPoolRetriesMore|TestSandboxThatNeverAnswers|TestSyncOver|TestTreesThatGit|TestChargesAreReleased|TestEditIsBounded|TestHostileScriptsTerminate|TestLargeUploadIsRefusedEarly|TestLogIsBounded|TestMemoryIsCharged|TestOpenAPI|TestQuotaBoundsMemory|TestRecordIsBounded|TestSlowWatcher|TestTenThousandCallsAtOnce|TestCompat|TestDeepTrees|TestDiskQuota|TestEveryWriteAndTruncate|TestHostile$$|TestLongLines|TestMountTooDeep|MatchBash|HistoryOfOwnerIsBounded

# SQLite is one goroutine's at a time, and takes most of the compiler's and the detector's time.
RACE_FLAGS := -gcflags='modernc.org/...=-race=false'

race: ## tests where goroutines meet, under the race detector: the logic tier, and the short tests against real sandboxes
	CGO_ENABLED=1 $(GO) test -race $(RACE_FLAGS) -short -vet=off -p 3 -timeout 20m -skip '$(RACE_SKIP)' $(RACE_LOGIC)
	CGO_ENABLED=1 ATOLL_TEST=all $(GO) test -race $(RACE_FLAGS) -short -vet=off -p 2 -timeout 20m $(RACE_REAL)

lint: ## golangci-lint, pinned
	GOBIN=$(CACHE)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0
	$(CACHE)/bin/golangci-lint run ./...

fuzz: ## every fuzz target for FUZZTIME (default 30s) each
	./scripts/fuzz $(or $(FUZZTIME),30s)

bench: ## the peers side by side, in one run
	./bench/run

demo:
	$(GO) run -v ./cmd/atoll demo

golden: ## rewrite the golden files from what the code does now
	$(GO) test ./cmd/atoll ./driver/virtual -update

cluster: ## a real Kubernetes on this machine, until 'make cluster-down'
	@eval "$$(./scripts/cluster)" && "$$ATOLL_CLUSTER" up

cluster-down:
	@eval "$$(./scripts/cluster)" && "$$ATOLL_CLUSTER" down

clean:
	rm -rf $(BINARIES) $(CACHE)
