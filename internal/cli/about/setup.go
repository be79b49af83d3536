package about

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

func (a commands) setupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Set up a driver on this machine",
		Long: `Set up what a driver needs on this machine. Without --install, print what is
missing and the commands that install it; nothing is changed.`,
		Example: "  atoll setup namespace\n  atoll setup microvm --install",
		Args:    app.UnknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, s := range []struct{ driver, short string }{
		{"namespace", "Set up sandboxes of Linux namespaces"},
		{"microvm", "Set up virtual machines: QEMU and a kernel"},
		{"docker", "Set up a container engine"},
	} {
		cmd.AddCommand(a.setupDriver(s.driver, s.short))
	}
	cmd.AddCommand(a.setupPython())
	cmd.AddCommand(&cobra.Command{
		Use:     "helpers",
		Short:   "Build atoll's other programs, after 'go install'",
		Example: "  atoll setup helpers",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return launch.InstallHelpers(cmd.Context(), helper.Version(), a.Err)
		},
	})
	return cmd
}

// setupDriver returns the command that sets up one driver.
func (a commands) setupDriver(name, short string) *cobra.Command {
	var install bool
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Example: "  atoll setup " + name + "\n  atoll setup " + name + " --install",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		Long: short + `.

Without --install, print what is missing and the commands that install it;
nothing is changed. The exit status is 1 if the driver does not work, or, with
--install, does not work afterwards.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.setUp(cmd.Context(), name, install) },
	}
	cmd.Flags().BoolVar(&install, "install", false, "run the commands, those for root with sudo")
	return cmd
}

// setupReport is what --json prints.
type setupReport struct {
	Driver string      `json:"driver"`
	Works  bool        `json:"works"`
	Error  string      `json:"error,omitempty"`
	Steps  []setupStep `json:"steps"`
}

// setUp prints or takes the steps that a driver needs.
func (a commands) setUp(ctx context.Context, name string, install bool) error {
	i := slices.IndexFunc(a.Drivers(), func(d atoll.Driver) bool { return d.Name() == name })
	if i < 0 {
		return fmt.Errorf("%w: there is no driver %s on this system: it needs Linux", atoll.ErrUnavailable, name)
	}
	d := a.Drivers()[i]
	err := probeDriver(ctx, d)
	report := setupReport{Driver: name, Works: err == nil, Steps: planSetup(name, inspectMachine(a.Home), err == nil)}
	if install && len(report.Steps) > 0 {
		if err := a.takeSteps(ctx, report.Steps); err != nil {
			return err
		}
		// Another probe in this process might return what the driver remembers: a new process looks afresh.
		self, err := helper.Executable()
		if err != nil {
			return err
		}
		check := exec.CommandContext(ctx, self, "setup", name)
		check.Stdout, check.Stderr = a.Out, a.Err
		return exitOf(check.Run())
	}
	if err != nil {
		report.Error = err.Error()
	}
	if a.JSON {
		err = a.PrintJSON(report)
	} else {
		err = a.printSteps(report)
	}
	if err == nil && !report.Works {
		err = exitcode.Silent(exitcode.Problems)
	}
	return err
}

func probeDriver(ctx context.Context, d atoll.Driver) error {
	ctx, cancel := context.WithTimeoutCause(ctx, app.ProbeTimeout, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, app.ProbeTimeout))
	defer cancel()
	_, err := d.Probe(ctx)
	return err
}

// exitOf returns the exit status of a program as one of this process.
func exitOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitcode.Silent(exit.ExitCode())
	}
	return err
}

// printSteps prints a report for people.
func (a commands) printSteps(r setupReport) error {
	var b strings.Builder
	switch {
	case r.Works && len(r.Steps) == 0:
		fmt.Fprintf(&b, "OK: %s works here; nothing is missing\n", r.Driver)
	case r.Works:
		fmt.Fprintf(&b, "OK: %s works here; it can be better:\n", r.Driver)
	default:
		fmt.Fprintf(&b, "BAD: %s does not work here: %s\n", r.Driver, output.Clean(strings.Join(strings.Fields(r.Error), " ")))
	}
	automatic := false
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "\n# %s\n", s.Why)
		for _, c := range s.Commands {
			fmt.Fprintf(&b, "%s\n", c)
			automatic = true
		}
	}
	if automatic {
		fmt.Fprintf(&b, "\n'atoll setup %s --install' runs these commands.\n", r.Driver)
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}

// takeSteps runs the commands of steps, and stops at the first that fails.
func (a commands) takeSteps(ctx context.Context, steps []setupStep) error {
	for _, s := range steps {
		if len(s.Commands) == 0 {
			a.Progress("# by hand: %s", s.Why)
			continue
		}
		for _, c := range s.Commands {
			a.Progress("%s", c)
			cmd := exec.CommandContext(ctx, "sh", "-ec", c)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Err, a.Err
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
		}
		if s.kernelDir != "" {
			if err := a.configureKernel(s.kernelDir); err != nil {
				return err
			}
		}
	}
	return nil
}

// configureKernel makes the kernel in a directory that of VMs, in the user's configuration.
func (a commands) configureKernel(dir string) error {
	kernels, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) == 0 {
		return fmt.Errorf("%w: no kernel in %s: %w", atoll.ErrUnavailable, dir, errors.Join(err, os.ErrNotExist))
	}
	kernel := kernels[len(kernels)-1]
	modules := filepath.Join(dir, "lib", "modules", strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"))
	a.Progress("%s: microvm.kernel is %s", a.Config.File, kernel)
	return config.EditFile(a.Config.File, func(top *yaml.Node) error {
		node := config.FindNode(top, "microvm")
		if node == nil {
			node = &yaml.Node{Kind: yaml.MappingNode}
			config.SetNode(top, "microvm", node)
		}
		config.SetNode(node, "kernel", config.NewScalar(kernel))
		config.SetNode(node, "modules", config.NewScalar(modules))
		return nil
	})
}
