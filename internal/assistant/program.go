package assistant

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/npm"
)

// programsAt is where sandboxes see the programs of agents, a directory each.
const programsAt = "/opt/atoll/agents"

// Names within the directory of an agent.
const (
	current  = "current" // leads to the version that is used
	unpacked = "package" // of a version: the package
	programs = "bin"     // of a version: the program, by the agent's name
)

// Programs are the agents' programs on this host.
type Programs struct {
	Dir      string        // NAME/VERSION; it is made
	Registry *npm.Registry // that packages come from; nil: npm's own
}

// Installed is an agent's program on this host.
type Installed struct {
	Agent   string    `json:"agent"`
	Package string    `json:"package"`
	Version string    `json:"version"`
	Dir     string    `json:"dir"`
	Since   time.Time `json:"since"`
}

// machine is this kind of computer, as packages call it.
var machine = map[string]*strings.Replacer{
	"amd64": strings.NewReplacer("{arch}", "x64", "{machine}", "x86_64"),
	"arm64": strings.NewReplacer("{arch}", "arm64", "{machine}", "aarch64"),
}

// packageOf returns what an agent's program is called here. A version that is
// asked for needs not say for which computer it is.
func packageOf(a agent.Agent, version string) (agent.Package, error) {
	p := a.Features().Package
	if p == nil {
		return agent.Package{}, fmt.Errorf("%w: the program of %s is in no registry: it comes with an image", atoll.ErrUnsupported, a.Name())
	}
	r, ok := machine[runtime.GOARCH]
	if !ok {
		return agent.Package{}, fmt.Errorf("%w: there is no %s for %s", atoll.ErrUnsupported, a.Name(), runtime.GOARCH)
	}
	if _, kind, ok := strings.Cut(p.Version, "-"); version != "" && ok && strings.Contains(kind, "{arch}") && !strings.Contains(version, "-linux-") {
		version += "-" + kind
	}
	if version == "" {
		version = p.Version
	}
	return agent.Package{Name: r.Replace(p.Name), Version: r.Replace(version), Program: r.Replace(p.Program), Node: p.Node}, nil
}

// Install gets an agent's program, and uses it from then on. An empty version is
// that which the agent was tested with. What is there already is not fetched
// again.
func (p *Programs) Install(ctx context.Context, a agent.Agent, version string, progress npm.Progress) (Installed, error) {
	pkg, err := packageOf(a, version)
	if err != nil {
		return Installed{}, err
	}
	r := p.Registry
	if r == nil {
		r = &npm.Registry{}
	}
	home := filepath.Join(p.Dir, a.Name())
	if err := p.sweep(home); err != nil {
		return Installed{}, err
	}
	at := func(version string) string { return filepath.Join(home, version, unpacked) }
	if pkg.Version, err = r.Fetch(ctx, npm.Package{Name: pkg.Name, Version: pkg.Version}, at, progress); err != nil {
		return Installed{}, err
	}
	if err := link(filepath.Join(home, pkg.Version), a.Name(), pkg.Program); err != nil {
		return Installed{}, fmt.Errorf("package %s@%s: %w", pkg.Name, pkg.Version, err)
	}
	if err := point(home, current, pkg.Version); err != nil {
		return Installed{}, err
	}
	return p.installed(a, pkg.Version)
}

// link makes the program of a version be found by the agent's name.
func link(dir, name, program string) error {
	file := filepath.Join(dir, unpacked, filepath.FromSlash(program))
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it has no %s", atoll.ErrInvalid, program)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: its %s is no file", atoll.ErrInvalid, program)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		return err
	}
	bin := filepath.Join(dir, programs)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, bin} {
		if err := os.Chmod(d, 0o755); err != nil { // sandboxes of other users read it
			return err
		}
	}
	return point(bin, name, filepath.Join("..", unpacked, filepath.FromSlash(program)))
}

// point makes a symbolic link, in place of one of before.
func point(dir, name, to string) error {
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	next := filepath.Join(tmp, name)
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, name))
}

// left is how old what an interrupted installation left must be.
const left = 24 * time.Hour

// sweep removes what interrupted installations left.
func (p *Programs) sweep(home string) error {
	list, err := filepath.Glob(filepath.Join(home, "*", ".new-*"))
	if err != nil {
		return err
	}
	for _, name := range list {
		info, err := os.Lstat(name)
		if err == nil && time.Since(info.ModTime()) > left {
			err = os.RemoveAll(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p *Programs) installed(a agent.Agent, version string) (Installed, error) {
	dir := filepath.Join(p.Dir, a.Name(), version)
	info, err := os.Stat(filepath.Join(dir, programs, a.Name()))
	if err != nil {
		return Installed{}, err
	}
	pkg, err := packageOf(a, version)
	return Installed{Agent: a.Name(), Package: pkg.Name, Version: version, Dir: dir, Since: info.ModTime()}, err
}

// Find returns the program of an agent that is used. There is none: ErrNotFound.
func (p *Programs) Find(a agent.Agent) (Installed, error) {
	version, err := os.Readlink(filepath.Join(p.Dir, a.Name(), current))
	if err == nil {
		var i Installed
		if i, err = p.installed(a, filepath.Base(version)); err == nil {
			return i, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Installed{}, fmt.Errorf("%w: %s is not installed on this host", atoll.ErrNotFound, a.Name())
	}
	return Installed{}, err
}

// Remove removes all versions of an agent's program, and reports whether there
// was one. Sandboxes in which it runs keep what they have open.
func (p *Programs) Remove(a agent.Agent) (bool, error) {
	home := filepath.Join(p.Dir, a.Name())
	if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, os.RemoveAll(home)
}

// Program returns what gives a sandbox an agent's program: nothing if it is not
// installed here.
func (p *Programs) Program(a agent.Agent) (Program, error) {
	i, err := p.Find(a)
	if errors.Is(err, atoll.ErrNotFound) {
		return Program{}, nil
	}
	if err != nil {
		return Program{}, err
	}
	return i.inside(), nil
}

// inside returns the program as sandboxes see it.
func (i Installed) inside() Program {
	at := programsAt + "/" + i.Agent
	return Program{
		Mounts: []atoll.Mount{{Source: i.Dir, Target: at, ReadOnly: true}},
		Path:   []string{at + "/" + programs},
	}
}
