package kubernetes

import (
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Sandbox is a pod with atoll's guest agent as process 1.
type Sandbox struct {
	*guest.Link
	*pod
}

// newSandbox returns the handle of a pod that has a guest, or will have one.
func newSandbox(p *pod) *Sandbox {
	s := &Sandbox{pod: p}
	spec := p.spec
	spec.Env, spec.User = nil, "" // the guest has them
	if p.agent != nil {
		spec.Env = p.env // the pod was created without them
	}
	s.Link = &guest.Link{ID: p.id, Connect: p.connectOrExplain, Reconnects: true, Spec: spec, BeforeOp: p.checkOperation, CountedDirs: p.writableDirs()}
	p.tryConnect = p.connectEarly
	p.quit = s.Quit
	p.hangUp = func() {
		p.stopProxy()
		p.route.reset()
		s.Disconnect()
	}
	return s
}

// writableDirs returns the directories that programs can write: all others in the image belong to root.
func (p *pod) writableDirs() []string {
	if p.d.Privileged {
		return []string{"/"}
	}
	all := append([]string{path.Clean(p.spec.Dir), "/tmp", "/var/tmp"}, p.extraDirs()...)
	slices.Sort(all)
	var list []string
	for _, dir := range slices.Compact(all) { // a directory precedes those in it
		if !slices.ContainsFunc(list, func(in string) bool { return strings.HasPrefix(dir, strings.TrimSuffix(in, "/")+"/") }) {
			list = append(list, dir)
		}
	}
	return list
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }
