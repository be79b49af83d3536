package wire

import "github.com/atoll-sandbox/atoll"

// List is several of a kind.
type List[T any] struct {
	Items []T `json:"items"`
}

// Snapshot asks for a snapshot, or names the one to restore.
type Snapshot struct {
	Name     string `json:"name,omitempty"`     // of the one to make; may be empty
	Snapshot string `json:"snapshot,omitempty"` // id or name of the one to go back to
}

// Fork asks for a second sandbox that starts as the first.
type Fork struct {
	Snapshot string     `json:"snapshot,omitempty"` // id or name; empty: as it is now
	Spec     atoll.Spec `json:"spec,omitzero"`      // name, labels, environment and limits, where they are set
}

// Prune asks for the removal of workspaces whose time is over.
type Prune struct {
	DryRun bool `json:"dry_run,omitempty"`
	All    bool `json:"all,omitempty"` // those of all owners
}

// Input is what is typed on a terminal.
type Input struct {
	Input []byte `json:"input"` // base64
}

// Signal asks for a signal to a process.
type Signal struct {
	Signal string `json:"signal"` // "INT", "TERM", "KILL"…
}
