package docker

import (
	"context"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.Meter        = (*Sandbox)(nil)
	_ atoll.DirFS        = (*Sandbox)(nil)
	_ atoll.Dialer       = (*Sandbox)(nil)
	_ atoll.Listener     = (*Sandbox)(nil)
	_ atoll.Watcher      = (*Sandbox)(nil)
	_ atoll.Notifier     = (*Sandbox)(nil)
	_ atoll.Detacher     = (*Sandbox)(nil)
	_ atoll.Terminals    = (*Sandbox)(nil)
	_ atoll.TerminalUser = (*Sandbox)(nil)
	_ atoll.Porter       = (*Sandbox)(nil)
)

// Stats returns what the sandbox uses now. Its files are those that it has
// besides its image's; where the container's layer can't be looked at from here,
// all that it sees.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	st, err := s.Link.Stats(ctx)
	if err != nil {
		return st, err
	}
	c, err := s.e.inspect(ctx, s.name())
	if err != nil {
		return st, s.fail("stats", err)
	}
	st.Created = createdOf(c.Config.Labels, c.Created)
	if st.Active.Before(st.Created) {
		st.Active = st.Created
	}
	if s.e.layers() && c.GraphDriver != nil {
		st.Files, st.DiskUsed, err = count(ctx, c.GraphDriver.Data["UpperDir"])
	}
	return st, s.fail("stats", err)
}

// layers reports whether the layers of containers are directories that can be
// looked at from here.
func (e *engine) layers() bool {
	return canCount && e.direct() && slices.Contains([]string{"overlay2", "overlay"}, e.info.Driver)
}
