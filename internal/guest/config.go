package guest

import "github.com/atoll-sandbox/atoll/internal/isolation/landlock"

// Config is the configuration that a driver passes to its guest, as JSON.
type Config struct {
	UID           int             `json:"uid"` // user of commands that name none
	GID           int             `json:"gid"`
	Home          string          `json:"home,omitempty"`        // home directory of that user; empty: from /etc/passwd
	Dir           string          `json:"dir,omitempty"`         // directory whose owner becomes UID and GID at the start, if it has another and Switch is set; empty: none
	Shell         string          `json:"shell,omitempty"`       // empty: /bin/sh
	Env           []string        `json:"env,omitempty"`         // environment of every command; the command's own variables override it
	CanSwitchUser bool            `json:"switch,omitempty"`      // the guest has the right to switch users
	Filter        []byte          `json:"filter,omitempty"`      // seccomp program (struct sock_filter…) for commands
	Landlock      *landlock.Rules `json:"landlock,omitempty"`    // Landlock rules for commands; nil: none
	SocketOwner   int             `json:"socketOwner,omitempty"` // user that gets the directory of the guest's socket, so that commands of root can't enter it; 0: it stays root's
	Cgroup        int             `json:"cgroup,omitempty"`      // descriptor of a cgroup v2 directory for the cgroups of commands; 0: none
	KeepRights    bool            `json:"whole,omitempty"`       // commands keep all rights of their user: the isolation is the VM around this kernel
	Durable       bool            `json:"durable,omitempty"`     // changes of files are on the disk before they are acknowledged: this kernel may end without writing it
	Egress        bool            `json:"gate,omitempty"`        // programs use the network through the egress proxy of the host; see the offer "gate"
}
