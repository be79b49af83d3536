// Package app has what all commands share: the configuration, the connection to a
// fleet, the drivers, and the output.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// App holds what all commands share: streams, global flags, configuration and connection.
type App struct {
	tty.Streams
	DriverName string
	Home       string
	JSON       bool
	Quiet      bool
	Config     *config.Config
	ConfigErr  error       // what is wrong with it
	HostFlag   string      // of --host
	Conn       *Connection // to the fleet; by client, once
	Program    string      // of atoll, to be a server in the background; empty: the one that runs

	Wiring
	Format   string             // of --format: a template; empty: none
	template *template.Template // of Format

	asked sync.Map // names of sandboxes as the user wrote them, by id: errors show these

	made []atoll.Driver // by registry, once: two ends of a copy may be one sandbox
}

// Wiring is what the binary passes to its commands, so that they need not import the
// drivers.
type Wiring struct {
	NewDrivers  func(c *config.Config, home string) []atoll.Driver                  // makes the drivers, as they are configured; the first is the default
	NewInMemory func(c *config.Config) atoll.Driver                                 // makes a driver that keeps its sandboxes in memory, named like the driver that it stands for
	NewRescuer  func(a *App) func(context.Context, atoll.Info, atoll.Sandbox) error // makes the function by which a fleet saves the work of a project's sandbox
}

// AnyConfig marks commands that work even if the configuration is wrong.
var AnyConfig = map[string]string{"config": "any"}

// Configure reads the configuration and what the flags of a command say.
func (a *App) Configure(cmd *cobra.Command) error {
	a.Config, a.ConfigErr = config.Load(config.FlagValues(cmd))
	a.JSON = a.JSON || config.Get[string](a.Config, "output") == "json"
	if err := a.parseFormat(); err != nil {
		return err
	}
	a.DriverName = config.Get[string](a.Config, "driver")
	a.Home = config.Get[string](a.Config, "home")
	switch {
	case cmd.Annotations["config"] == "any" || cmd.Parent() != nil && cmd.Parent().Name() == "completion":
		return nil
	}
	return a.ConfigErr
}

// CheckHome returns an error if there is no state directory.
func (a *App) CheckHome() error {
	if a.Home != "" {
		return nil
	}
	_, err := config.DefaultHome()
	return err
}

// SharesRegistry reports whether several servers share the registry of this fleet.
func (a *App) SharesRegistry() bool { return config.Get[string](a.Config, "registry") != "" }

// Drivers returns the drivers of this run: all that are registered, or with a shared registry
// those whose sandboxes every server can open.
func (a *App) Drivers() []atoll.Driver {
	if a.made == nil {
		a.made = a.NewDrivers(a.Config, a.Home)
		if a.SharesRegistry() {
			a.made = slices.DeleteFunc(a.made, func(d atoll.Driver) bool { return !atoll.IsShared(d) })
		}
	}
	return a.made
}

// CloseDrivers closes the drivers of this run.
func (a *App) CloseDrivers() error {
	var errs []error
	for _, d := range a.made {
		if c, ok := d.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	a.made = nil
	return errors.Join(errs...)
}

// Driver returns the driver that is configured, of those of this machine.
func (a *App) Driver() (atoll.Driver, error) {
	name := a.DefaultDriver()
	var names []string
	for _, d := range a.Drivers() {
		if d.Name() == name {
			return d, nil
		}
		names = append(names, d.Name())
	}
	if a.SharesRegistry() {
		return nil, fmt.Errorf("%w: driver %s: its sandboxes are on one host, and servers that share a registry need one that all of them reach: %s", atoll.ErrUnsupported, name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%w: driver %q%s; there is: %s", atoll.ErrNotFound, name, suggest.Hint(name, names), strings.Join(names, ", "))
}

// Progress prints a progress message to stderr, unless --quiet or --json is set.
func (a *App) Progress(format string, args ...any) {
	if !a.Quiet && !a.JSON {
		fmt.Fprintln(a.Err, output.CleanLines(fmt.Sprintf(format, args...), ""))
	}
}

// CheckArgCount returns a check of the number of arguments; what describes them in the error.
func CheckArgCount(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return fmt.Errorf("%w: %s takes %s, not %d arguments\nsee '%s --help'", atoll.ErrInvalid, cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}
