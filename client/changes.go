package client

import (
	"context"
	"net/url"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// What has changed in a git repository of a sandbox.
type (
	Changes       = wire.Changes
	ChangedBranch = wire.ChangedBranch
	ChangedFile   = wire.ChangedFile
	FileChange    = wire.FileChange
	FileSide      = wire.FileSide
)

// ChangesFilter selects changes. The zero ChangesFilter selects all of the branch that the sandbox's own
// directory is on.
type ChangesFilter struct {
	Dir    string // a directory in the repository
	Branch string
	Base   string // branch or commit to compare with
	View   string // "all", "commits", "uncommitted"
}

// Changes lists what has changed in a git repository of the sandbox. The sandbox's own git reports it:
// nothing of it can be trusted.
func (s *Sandbox) Changes(ctx context.Context, f ChangesFilter) (Changes, error) {
	k := s.newCall("changes", "", "/changes")
	k.query = make(url.Values)
	for name, v := range map[string]string{"dir": f.Dir, "branch": f.Branch, "base": f.Base, "view": f.View} {
		setText(k.query, name, v)
	}
	var l Changes
	err := s.c.getJSON(ctx, k, &l)
	return l, err
}

// ReadChange returns both contents of a file that l lists.
func (s *Sandbox) ReadChange(ctx context.Context, l *Changes, path string) (FileChange, error) {
	k := s.newCall("changes", "", "/changes/file")
	k.query = url.Values{"dir": {l.Dir}, "path": {path}}
	setText(k.query, "from", l.From)
	setText(k.query, "to", l.To)
	var c FileChange
	err := s.c.getJSON(ctx, k, &c)
	return c, err
}
