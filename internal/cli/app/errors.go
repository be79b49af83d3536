package app

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// ExplainWriteError adds to an error of a directory what can be done about it.
func (a *App) ExplainWriteError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return fmt.Errorf("%w (set ATOLL_HOME or --home to a directory that you can write)", err)
	}
	return err
}

// PrintError prints an error for users, or as JSON with --json.
func (a *App) PrintError(err error) {
	if a.JSON && a.template == nil {
		_ = a.PrintJSON(map[string]any{"error": err.Error(), "kind": exitcode.KindOf(err)}) // stdout is gone: there is nowhere else
		return
	}
	text := strings.TrimPrefix(err.Error(), atoll.ErrInvalid.Error()+": ") // the exit code says that it was the call
	a.asked.Range(func(id, name any) bool {
		text = strings.ReplaceAll(text, fmt.Sprintf(" %s: ", id), fmt.Sprintf(" %s: ", name))
		return true
	})
	fmt.Fprintf(a.Err, "atoll: %s\n", output.CleanLines(strings.TrimRight(text, "\n"), "       "))
}

// UnknownCommand returns an error with a hint for an unknown subcommand; nil without
// arguments.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%w: there is no command %q%s\nsee '%s --help'", atoll.ErrInvalid, args[0], suggest.Hint(args[0], names), cmd.CommandPath())
}
