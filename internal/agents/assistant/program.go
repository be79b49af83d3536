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
	"github.com/atoll-sandbox/atoll/internal/agents/npm"
)

// programsAt is the directory inside sandboxes with a subdirectory for each agent's
// program.
const programsAt = "/opt/atoll/agents"

// Names within the directory of an agent.
const (
	currentLink = "current" // link to the version in use
	packageDir  = "package" // of a version: the package
	binDir      = "bin"     // of a version: the program, by the agent's name
)

// Programs are the installed programs of agents on this host.
type Programs struct {
	Dir      string        // NAME/VERSION; it is created
	Registry *npm.Registry // of the packages; nil: npm's own
}

// InstalledProgram is an installed program of an agent.
type InstalledProgram struct {
	Agent   string    `json:"agent"`
	Package string    `json:"package"`
	Version string    `json:"version"`
	Dir     string    `json:"dir"`
	Since   time.Time `json:"since"`
}

// archNames are the names of this machine's architecture in packages.
var archNames = map[string]*strings.Replacer{
	"amd64": strings.NewReplacer("{arch}", "x64", "{machine}", "x86_64"),
	"arm64": strings.NewReplacer("{arch}", "arm64", "{machine}", "aarch64"),
}

// packageOf returns the package of an agent's program for this host. A requested
// version need not name the architecture.
func packageOf(a agent.Agent, version string) (agent.Package, error) {
	p := a.Features().Package
	if p == nil {
		return agent.Package{}, fmt.Errorf("%w: the program of %s is in no registry: use an image that has it", atoll.ErrUnsupported, a.Name())
	}
	r, ok := archNames[runtime.GOARCH]
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

// Install installs an agent's program and makes it the version in use. An empty version
// is the one that the agent was tested with. An existing version is not downloaded
// again.
func (p *Programs) Install(ctx context.Context, a agent.Agent, version string, progress npm.Progress) (InstalledProgram, error) {
	pkg, err := packageOf(a, version)
	if err != nil {
		return InstalledProgram{}, err
	}
	r := p.Registry
	if r == nil {
		r = &npm.Registry{}
	}
	home := filepath.Join(p.Dir, a.Name())
	if err := p.removeStale(home); err != nil {
		return InstalledProgram{}, err
	}
	at := func(version string) string { return filepath.Join(home, version, packageDir) }
	if pkg.Version, err = r.Fetch(ctx, npm.Package{Name: pkg.Name, Version: pkg.Version}, at, progress); err != nil {
		return InstalledProgram{}, err
	}
	if err := linkProgram(filepath.Join(home, pkg.Version), a.Name(), pkg.Program); err != nil {
		return InstalledProgram{}, fmt.Errorf("package %s@%s: %w", pkg.Name, pkg.Version, err)
	}
	if err := replaceLink(home, currentLink, pkg.Version); err != nil {
		return InstalledProgram{}, err
	}
	return p.describeInstalled(a, pkg.Version)
}

// linkProgram links the program of a version by the agent's name.
func linkProgram(dir, name, program string) error {
	file := filepath.Join(dir, packageDir, filepath.FromSlash(program))
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
	bin := filepath.Join(dir, binDir)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, bin} {
		if err := os.Chmod(d, 0o755); err != nil { // sandboxes of other users must read it
			return err
		}
	}
	return replaceLink(bin, name, filepath.Join("..", packageDir, filepath.FromSlash(program)))
}

// replaceLink creates a symbolic link, or replaces one atomically.
func replaceLink(dir, name, to string) error {
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

// staleAge is the age of files of interrupted installations after which they are removed.
const staleAge = 24 * time.Hour

// removeStale removes files of interrupted installations.
func (p *Programs) removeStale(home string) error {
	list, err := filepath.Glob(filepath.Join(home, "*", ".new-*"))
	if err != nil {
		return err
	}
	for _, name := range list {
		info, err := os.Lstat(name)
		if err == nil && time.Since(info.ModTime()) > staleAge {
			err = os.RemoveAll(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p *Programs) describeInstalled(a agent.Agent, version string) (InstalledProgram, error) {
	dir := filepath.Join(p.Dir, a.Name(), version)
	info, err := os.Stat(filepath.Join(dir, binDir, a.Name()))
	if err != nil {
		return InstalledProgram{}, err
	}
	pkg, err := packageOf(a, version)
	return InstalledProgram{Agent: a.Name(), Package: pkg.Name, Version: version, Dir: dir, Since: info.ModTime()}, err
}

// Find returns the version in use of an agent's program, or ErrNotFound.
func (p *Programs) Find(a agent.Agent) (InstalledProgram, error) {
	version, err := os.Readlink(filepath.Join(p.Dir, a.Name(), currentLink))
	if err == nil {
		var i InstalledProgram
		if i, err = p.describeInstalled(a, filepath.Base(version)); err == nil {
			return i, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return InstalledProgram{}, fmt.Errorf("%w: %s is not installed on this host", atoll.ErrNotFound, a.Name())
	}
	return InstalledProgram{}, err
}

// Remove removes all versions of an agent's program, and reports whether there was one.
// Sandboxes in which it runs keep their open files.
func (p *Programs) Remove(a agent.Agent) (bool, error) {
	home := filepath.Join(p.Dir, a.Name())
	if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, os.RemoveAll(home)
}

// Program returns the mounts of an agent's program for a sandbox; the zero Program if
// it is not installed.
func (p *Programs) Program(a agent.Agent) (Program, error) {
	i, err := p.Find(a)
	if errors.Is(err, atoll.ErrNotFound) {
		return Program{}, nil
	}
	if err != nil {
		return Program{}, err
	}
	return i.toProgram(), nil
}

// toProgram returns the program as sandboxes mount it.
func (i InstalledProgram) toProgram() Program {
	at := programsAt + "/" + i.Agent
	return Program{
		Mounts: []atoll.Mount{{Source: i.Dir, Target: at, ReadOnly: true}},
		Path:   []string{at + "/" + binDir},
	}
}
