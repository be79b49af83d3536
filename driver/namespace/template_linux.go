package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// template is the part of the root file system that all sandboxes share: devices, and for those with
// the host's own root its programs and settings. The spawner has built it; each sandbox gets clones of
// its trees.
type template struct {
	id     int
	system []string // paths of the trees besides /etc and /dev
	view   hostView // of the host when it was built
	mounts int      // descriptor that reports changes of the host's mounts
}

// hostView identifies the files of the host that a template consists of.
type hostView []fileIdentity

type fileIdentity struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
}

// readHostView returns the present view: of directories by their entries, of /etc/passwd and
// /etc/group by their content.
func readHostView() (hostView, error) {
	names := append(settingsDirs(), "/", "/etc/passwd", "/etc/group", localSettings)
	for _, name := range systemDirs() {
		names = append(names, "/"+name)
	}
	view := make(hostView, len(names))
	for i, name := range names {
		var st unix.Stat_t
		err := unix.Lstat(name, &st)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "lstat", Path: name, Err: err}
		}
		view[i] = fileIdentity{uint64(st.Dev), st.Ino, st.Size, st.Mtim}
	}
	return view, nil
}

// mountsChanged reports whether the mounts of the host have changed since the last call.
func (t *template) mountsChanged() bool {
	fds := []unix.PollFd{{Fd: int32(t.mounts), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return n != 0 || err != nil
}

// currentTemplate returns the template of a spawner, and builds it again if the host has changed. It
// needs the privileges of the host's root.
func (d *Driver) currentTemplate(ctx context.Context, spawner *jail.Spawner) (*template, error) {
	d.host.building.Lock()
	defer d.host.building.Unlock()
	view, err := readHostView()
	if err != nil {
		return nil, err
	}
	old := d.host.template
	if old != nil && d.host.templateOf == spawner {
		if slices.Equal(old.view, view) && !old.mountsChanged() {
			return old, nil
		}
		if err := spawner.DropTemplate(old.id); err != nil {
			return nil, err
		}
	}
	d.forgetTemplate()
	t, err := buildTemplate(ctx, spawner, view)
	if err != nil {
		return nil, fmt.Errorf("template of root file systems: %w", err)
	}
	d.host.template, d.host.templateOf = t, spawner
	return t, nil
}

// forgetTemplate releases what this process holds of the template. The caller holds host.building.
func (d *Driver) forgetTemplate() {
	if d.host.template != nil {
		_ = unix.Close(d.host.template.mounts) // only polled
		d.host.template, d.host.templateOf = nil, nil
	}
}

// buildTemplate lets a spawner build a template of the host as it is now.
func buildTemplate(ctx context.Context, spawner *jail.Spawner, view hostView) (_ *template, err error) {
	t := &template{view: view}
	if t.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil { // the poller of os.File would take the reports
		return nil, os.NewSyscallError("open", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(t.mounts) // only polled
		}
	}()
	p := &plan{root: true}
	defer p.close()
	if err = p.addHostRoot(); err != nil {
		return nil, err
	}
	if err = p.addUsers(); err != nil {
		return nil, err
	}
	p.addNameFiles("")
	p.addResolver()
	p.addStep(jail.Step{Action: jail.RemountReadOnly, Path: "etc"})
	if err = p.addDevices(); err != nil {
		return nil, err
	}
	paths := []string{"etc", "dev"}
	for _, s := range p.setup.Steps {
		if s.Action == jail.BindTree && slices.Contains(systemDirs(), s.Path) {
			t.system = append(t.system, s.Path)
		}
	}
	t.id, err = spawner.BuildTemplate(ctx, p.setup.Steps, append(paths, t.system...), p.files)
	return t, err
}

// trees returns the trees for a sandbox, with or without the host's own root.
func (t *template) trees(hostRoot bool) []jail.Tree {
	if t == nil {
		return nil
	}
	paths := []string{"dev"}
	if hostRoot {
		paths = append(append(paths, "etc"), t.system...)
	}
	list := make([]jail.Tree, len(paths))
	for i, p := range paths {
		list[i] = jail.Tree{Template: t.id, Path: p}
	}
	return list
}

// addTemplate plans the trees of a template, whose clones addClones adds.
func (p *plan) addTemplate(hostRoot bool) error {
	if hostRoot {
		if err := p.addSystemDirs(func(string) error { return nil }); err != nil {
			return err
		}
	}
	for _, tree := range p.template.trees(hostRoot) {
		i := p.addFile(nil)
		p.trees = append(p.trees, i)
		p.addStep(jail.Step{Action: jail.BindTree, Path: tree.Path, Source: jail.Source{File: i}})
	}
	return nil
}

// addClones adds the clones of the trees, which the plan then owns. A plan that failed has no places for
// them.
func (p *plan) addClones(clones []*os.File) {
	if len(clones) != len(p.trees) || len(p.files) == 0 {
		fdpass.CloseAll(clones)
		return
	}
	for i, place := range p.trees {
		p.files[place] = clones[i]
	}
}
