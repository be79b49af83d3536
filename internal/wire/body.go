package wire

import "github.com/atoll-sandbox/atoll"

// List is a list in a response.
type List[T any] struct {
	Items []T `json:"items"`
}

// Count is a number of objects in a response.
type Count struct {
	Count int `json:"count"`
}

// Page is a part of a list in a response.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; missing: there is none."`
}

// Snapshot is a request to take or to restore a snapshot.
type Snapshot struct {
	Name     string `json:"name,omitempty"`     // name of the new snapshot; may be empty
	Snapshot string `json:"snapshot,omitempty"` // id or name of the snapshot to restore
}

// Fork is a request to duplicate a sandbox.
type Fork struct {
	Snapshot string     `json:"snapshot,omitempty"` // id or name; empty: the current state
	Spec     atoll.Spec `json:"spec,omitzero"`      // name, labels, environment and limits of the fork, where they are set
}

// Prune is a request to remove expired workspaces.
type Prune struct {
	DryRun bool `json:"dry_run,omitempty"`
	All    bool `json:"all,omitempty"` // of all owners
}

// Input is input for a terminal.
type Input struct {
	Input []byte `json:"input"` // base64
}

// Signal is a request to send a signal to a process.
type Signal struct {
	Signal string `json:"signal"` // "INT", "TERM", "KILL"…
}
