// Package program is all of atoll: its commands with all drivers.
package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// Run runs atoll with the process's own arguments, streams and signals, and returns its exit status.
func Run() int {
	klog.SetLogger(logr.Discard()) // client-go writes to standard error what its errors say, too
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe is an error like others: what was done is kept
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return cli.Run(ctx, launch.ResolveArguments(os.Args), tty.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Wiring())
}
