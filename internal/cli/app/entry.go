package app

import "github.com/spf13/cobra"

// Entry is a command of the first level. It is built only if a call needs it: building all
// commands takes longer than most of them run.
type Entry struct {
	Name string // of the command that New returns
	New  func() *cobra.Command
}
