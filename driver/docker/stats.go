package docker

import (
	"context"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.Meter            = (*Sandbox)(nil)
	_ atoll.DirFS            = (*Sandbox)(nil)
	_ atoll.Dialer           = (*Sandbox)(nil)
	_ atoll.Listener         = (*Sandbox)(nil)
	_ atoll.Watcher          = (*Sandbox)(nil)
	_ atoll.Notifier         = (*Sandbox)(nil)
	_ atoll.Detacher         = (*Sandbox)(nil)
	_ atoll.Terminals        = (*Sandbox)(nil)
	_ atoll.TerminalAttacher = (*Sandbox)(nil)
	_ atoll.PortLister       = (*Sandbox)(nil)
)

// Stats returns the resources that the sandbox uses now. Its files are those besides its image's; if
// the container's layer can't be read from here, all files inside.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	st, err := s.Link.Stats(ctx)
	if err != nil {
		return st, err
	}
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil {
		return st, s.wrapError("stats", err)
	}
	st.Created = createdOf(c.Config.Labels, c.Created)
	if st.Active.Before(st.Created) {
		st.Active = st.Created
	}
	if s.e.canReadLayers() && c.GraphDriver != nil {
		st.Files, st.DiskUsed, err = countLayer(ctx, c.GraphDriver.Data["UpperDir"])
	}
	return st, s.wrapError("stats", err)
}

// canReadLayers reports whether the layers of containers are directories that can be read from here.
func (e *engine) canReadLayers() bool {
	return canCount && e.reachesSockets() && slices.Contains([]string{"overlay2", "overlay"}, e.info.Driver)
}
