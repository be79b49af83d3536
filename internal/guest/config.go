package guest

import "github.com/atoll-sandbox/atoll/internal/landlock"

// Config is what a driver tells its guest, as JSON.
type Config struct {
	UID      int             `json:"uid"` // of commands that name no user
	GID      int             `json:"gid"`
	Home     string          `json:"home,omitempty"`     // of those; empty: what /etc/passwd says
	Dir      string          `json:"dir,omitempty"`      // given to UID and GID at the start, where it is another's and Switch is set; empty: nothing is
	Shell    string          `json:"shell,omitempty"`    // empty: /bin/sh
	Env      []string        `json:"env,omitempty"`      // of every command, before what the command brings
	Switch   bool            `json:"switch,omitempty"`   // this process may become other users
	Filter   []byte          `json:"filter,omitempty"`   // seccomp program (struct sock_filter…) that commands run under
	Landlock *landlock.Rules `json:"landlock,omitempty"` // what is left to commands; nil: not looked at
	Cgroup   int             `json:"cgroup,omitempty"`   // descriptor of a cgroup v2 directory in which commands get theirs; 0: none
	Whole    bool            `json:"whole,omitempty"`    // commands may have all that Linux gives their user: the wall is around this process's kernel
	Gate     bool            `json:"gate,omitempty"`     // programs reach the network through the host's gate; see offer "gate"
}
