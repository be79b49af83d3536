package launch

import "path/filepath"

// RemoteHelper is the name under which git calls atoll for remotes atoll::NAME.
const RemoteHelper = "git-remote-atoll"

// ResolveArguments returns the arguments of atoll, given those of its process. Called by git,
// they are those of a hidden command.
func ResolveArguments(args []string) []string {
	if filepath.Base(args[0]) == RemoteHelper {
		return append([]string{"git-remote", "--"}, args[1:]...) // a URL may look like a flag
	}
	return args[1:]
}
