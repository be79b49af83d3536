package cli

import (
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

// ResolveArguments are what atoll is called with; by git, they mean its hidden command.
func ResolveArguments(args []string) []string {
	if filepath.Base(args[0]) == pairing.RemoteHelper {
		return append([]string{"git-remote", "--"}, args[1:]...) // a URL may look like a flag
	}
	return args[1:]
}
