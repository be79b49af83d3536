package cgroup

import (
	"maps"
	"slices"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Prober probes the control groups of this host when they are first needed. The zero Prober is
// ready for use, also from many goroutines at once.
type Prober struct {
	mu   sync.Mutex
	tree *Tree // guarded by mu; nil: not probed yet
}

// Tree returns where this process can make groups. It probes once; an error is not remembered.
func (p *Prober) Tree() (*Tree, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree == nil {
		t, err := Probe()
		if err != nil {
			return nil, err
		}
		p.tree = t
	}
	return p.tree, nil
}

// Checks reports for each control whether groups have it. uses describes what a control is used
// for; fix describes how to enable a missing one.
func (p *Prober) Checks(uses map[Control]string, fix string) []atoll.Check {
	tree, err := p.Tree()
	if err != nil {
		return []atoll.Check{{Name: "control groups", Detail: err.Error(), Fix: "a kernel with cgroups, mounted at /sys/fs/cgroup"}}
	}
	missing := tree.Missing()
	var list []atoll.Check
	for _, control := range slices.Sorted(maps.Keys(uses)) {
		c := atoll.Check{Name: uses[control], OK: tree.Has(control), Detail: "control group " + string(control)}
		if !c.OK {
			c.Detail, c.Fix = missing[control], fix
		}
		list = append(list, c)
	}
	return list
}
