// Package launch is what every call of atoll runs first. It imports little, so that it starts fast:
// it answers some calls itself, and replaces the process with the full program for all others.
package launch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/demo"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Launcher runs calls of atoll.
type Launcher struct {
	tty.Streams
	Driver  func() atoll.Driver       // makes the driver of the demonstration where the full program is missing
	Replace func(args []string) error // replaces the process with the full program; it returns only if that fails
}

// Run runs a call of atoll and returns its exit status. It does not return if the full program
// replaces the process.
func (l Launcher) Run(ctx context.Context, args []string) int {
	err := l.runCall(ctx, args)
	if err == nil {
		return 0
	}
	fmt.Fprintf(l.Err, "atoll: %v\n", err)
	if errors.Is(err, atoll.ErrInvalid) {
		return 2
	}
	return 125
}

func (l Launcher) runCall(ctx context.Context, args []string) error {
	switch {
	case slices.Equal(args, []string{"version"}), slices.Equal(args, []string{"--version"}):
		_, err := fmt.Fprintln(l.Out, version.Build())
		return err
	case slices.Equal(args, []string{"setup", "helpers"}): // the full program is one of them
		return InstallHelpers(ctx, helper.Version(), l.Err)
	case slices.Equal(args, []string{"version", "--json"}):
		return output.WriteJSON(l.Out, version.Build(), true)
	}
	err := l.Replace(args)
	if errors.Is(err, atoll.ErrUnavailable) && len(args) > 0 && args[0] == "demo" {
		return l.runDemo(ctx, args[1:])
	}
	return err
}

// runDemo runs the demonstration on the only driver of this program.
func (l Launcher) runDemo(ctx context.Context, args []string) error {
	d := demo.Demo{Driver: l.Driver(), Out: l.Out}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&d.From, "from", ".", "")
	flags.BoolVar(&d.JSON, "json", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: demo takes --from DIRECTORY and --json here; 'atoll setup helpers' or `make build` makes an atoll with all drivers", atoll.ErrInvalid)
	}
	return d.Run(ctx)
}
