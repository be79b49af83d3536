// Package command holds the commands of a virtual sandbox. Each family of
// commands is a package: text, file, search, data, archive, git, make, yq, system and net.
// This package joins their tables.
package command

import (
	"slices"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/archive"
	"github.com/atoll-sandbox/atoll/shell/command/data"
	"github.com/atoll-sandbox/atoll/shell/command/file"
	"github.com/atoll-sandbox/atoll/shell/command/git"
	"github.com/atoll-sandbox/atoll/shell/command/make"
	"github.com/atoll-sandbox/atoll/shell/command/net"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/shell/command/search"
	"github.com/atoll-sandbox/atoll/shell/command/system"
	"github.com/atoll-sandbox/atoll/shell/command/text"
	"github.com/atoll-sandbox/atoll/shell/command/yq"
)

// Command is a command of the shell: its names, its help and its program.
type Command = program.Command

// All returns every command that needs no network, family by family.
func All() []Command {
	return slices.Concat(text.Commands(), file.Commands(), search.Commands(), data.Commands(), archive.Commands(), git.Commands(), make.Commands(), yq.Commands(), system.Commands(All))
}

// Network returns the commands that reach hosts. They are not among All: a sandbox has them only
// where it may reach hosts, through the network that its kernel was given.
func Network() []Command { return net.Commands() }

// Programs returns the programs of commands by each of their names.
func Programs(list []Command) map[string]kernel.Program { return program.ByName(list) }
