# Every target works on a machine with nothing but Go; `make lint` installs
# its tools into .cache by itself.
GO       ?= go
CACHE    := $(CURDIR)/.cache
BINARIES := $(CURDIR)/bin

.PHONY: build test lint fuzz bench demo golden cluster cluster-down clean

build: ## bin/atoll, which holds atoll-guest, atoll-gate, atoll-sftp and atoll-tool
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(CACHE)/helpers/ ./cmd/atoll-guest ./cmd/atoll-gate ./cmd/atoll-sftp ./cmd/atoll-tool
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BINARIES)/ ./cmd/atoll
	$(GO) run ./internal/helper/pack $(BINARIES)/atoll $(CACHE)/helpers/atoll-guest $(CACHE)/helpers/atoll-gate $(CACHE)/helpers/atoll-sftp $(CACHE)/helpers/atoll-tool

test: ## everything that must pass before a commit
	$(GO) vet ./...
	GO="$(GO)" ./scripts/test -vet=off

race: ## the tests where several goroutines meet, under the race detector
	CGO_ENABLED=1 $(GO) test -race -short -vet=off -p 2 -timeout 30m ./agent ./atolltest ./vfs ./internal/kernel ./internal/guest ./internal/gate/... ./internal/vt ./internal/image ./internal/cgroup ./internal/jail ./driver/virtual ./driver/namespace ./shell ./internal/wire ./internal/fleet ./internal/server ./internal/mcp ./internal/sshd ./internal/machine ./internal/inside ./internal/keep ./internal/rootdisk ./internal/virtiofs ./internal/project ./internal/proxy/... ./driver/microvm ./internal/turn ./internal/tool ./internal/shellwire ./client

lint: ## golangci-lint, pinned
	GOBIN=$(CACHE)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0
	$(CACHE)/bin/golangci-lint run ./...

fuzz: ## every fuzz target for FUZZTIME (default 30s) each
	./scripts/fuzz $(or $(FUZZTIME),30s)

bench: ## the peers side by side, in one run
	./bench/run

demo:
	$(GO) run ./cmd/atoll demo

golden: ## rewrite the golden files from what the code does now
	$(GO) test ./cmd/atoll ./driver/virtual -update

cluster: ## a real Kubernetes on this machine, until 'make cluster-down'
	@eval "$$(./scripts/cluster)" && "$$ATOLL_CLUSTER" up

cluster-down:
	@eval "$$(./scripts/cluster)" && "$$ATOLL_CLUSTER" down

clean:
	rm -rf $(BINARIES) $(CACHE)
