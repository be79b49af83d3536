# Every target works on a machine with nothing but Go; `make lint` installs
# its tools into .cache by itself.
GO       ?= go
CACHE    := $(CURDIR)/.cache
BINARIES := $(CURDIR)/bin

.PHONY: build test lint fuzz bench demo golden clean

build: ## bin/atoll
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o $(BINARIES)/ ./cmd/atoll

test: ## everything that must pass before a commit
	$(GO) vet ./...
	$(GO) test -p 1 ./...

race: ## the tests where several goroutines meet, under the race detector
	$(GO) test -race -short . ./atolltest ./vfs ./internal/kernel ./driver/... ./shell ./internal/wire ./internal/fleet ./internal/server ./internal/mcp ./client

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

clean:
	rm -rf $(BINARIES) $(CACHE)
