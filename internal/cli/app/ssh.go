package app

import (
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
)

// SSHKeys is where the keys of SSH are: with what else this user keeps here.
func (a *App) SSHKeys() sshd.Keys { return sshd.Keys{Dir: filepath.Join(a.Home, "ssh")} }
