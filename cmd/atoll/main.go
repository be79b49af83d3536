// Command atoll gives AI agents sandboxes: isolated computers of their own.
//
// This program is small and starts fast. All commands are in atoll-full, which `make build` packs
// into it.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(launch.Launcher{
		Streams: tty.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		Driver:  func() atoll.Driver { return &virtual.Driver{LimitHeap: true} },
		Replace: launch.Replace,
	}.Run(ctx, launch.ResolveArguments(os.Args)))
}
