package kubernetes

import (
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Sandbox is a pod with atoll's guest as process 1.
type Sandbox struct {
	*guest.Link
	*pod
}

// newSandbox returns the handle of a pod that has a guest, or will have.
func newSandbox(p *pod) *Sandbox {
	s := &Sandbox{pod: p}
	spec := p.spec
	spec.Env, spec.User = nil, "" // the guest has them
	if p.borrowed != nil {
		spec.Env = p.env // it was made before they were known
	}
	s.Link = &guest.Link{ID: p.id, Reach: p.reach, Spec: spec, Before: p.before, Counted: p.written()}
	p.greet = p.knock
	p.quit = s.Quit
	p.hangUp = func() {
		p.closeGate()
		p.way.forget()
		s.HangUp()
	}
	return s
}

// written are the directories that programs can write to: the image's others are
// root's.
func (p *pod) written() []string {
	if p.d.Privileged {
		return []string{"/"}
	}
	all := append([]string{path.Clean(p.spec.Dir), "/tmp", "/var/tmp"}, p.dirs()...)
	slices.Sort(all)
	var list []string
	for _, dir := range slices.Compact(all) { // what is in another comes after it
		if !slices.ContainsFunc(list, func(in string) bool { return strings.HasPrefix(dir, strings.TrimSuffix(in, "/")+"/") }) {
			list = append(list, dir)
		}
	}
	return list
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }
