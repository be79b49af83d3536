package assistant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/hook"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/skill"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// LoadOptions are what assistants are checked against. What is nil is not
// checked.
type LoadOptions struct {
	Agents     map[string]agent.Agent
	Connectors map[string]model.Connector
	Servers    *tool.Servers // the app's
	Skills     []skill.Skill // the app's
	Processes  tool.Processes
	Env        func(string) (string, bool) // what "$ENV.NAME" means; nil: nothing is set
	Hooks      *hook.Cache                 // nil: none
}

// What an app directory may hold.
const (
	maxAssistants = 1000
	maxLevels     = 5 // of directories above an assistant's
)

// manifests are the names of an assistant's own file.
var manifests = []string{"package.yao", "atoll.yaml", "atoll.yml"}

// Load reads the assistants of a directory, which need not be there. Those
// that are wrong are left out; the error then joins a *Problem for each
// mistake, with file, line and field.
func Load(dir string, opts LoadOptions) (map[string]*Assistant, error) {
	found, errs := Find(dir)
	all := make(map[string]*Assistant, len(found))
	for id, at := range found {
		a, err := Read(at, id, opts)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		all[id] = a
	}
	return all, sortedProblems(errs)
}

// Find returns the directories of assistants beneath dir, by their ids. Those
// whose names can't be ids are told in the error.
func Find(dir string) (map[string]string, error) {
	found := make(map[string]string)
	var errs []error
	var walk func(at string, names []string)
	walk = func(at string, names []string) {
		list, err := os.ReadDir(at)
		if errors.Is(err, fs.ErrNotExist) && len(names) == 0 {
			return
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("assistants: %w", err))
			return
		}
		if len(names) > 0 && slices.ContainsFunc(list, func(e fs.DirEntry) bool { return slices.Contains(manifests, e.Name()) }) {
			id := strings.Join(names, ".")
			if len(found) >= maxAssistants {
				errs = append(errs, &Problem{File: at, Text: fmt.Sprintf("more than %d assistants", maxAssistants)})
				return
			}
			found[id] = at
			return // what is below is the assistant's own
		}
		if len(names) >= maxLevels {
			return
		}
		for _, e := range list {
			name := e.Name()
			if !e.IsDir() || strings.HasPrefix(name, ".") || name == "node_modules" {
				continue
			}
			below := filepath.Join(at, name)
			if strings.Contains(name, ".") || atoll.CheckName(name) != nil {
				errs = append(errs, &Problem{File: below, Text: "the name of an assistant's directory has only a-z, 0-9, '-' and '_', and begins and ends with a letter or digit"})
				continue
			}
			walk(below, append(slices.Clone(names), name))
		}
	}
	walk(dir, nil)
	return found, errors.Join(errs...)
}

// Read reads one assistant. An error joins a *Problem for each mistake.
func Read(dir, id string, opts LoadOptions) (*Assistant, error) {
	l := &loading{dir: dir, fsys: skill.Within(dir), opts: &opts, a: &Assistant{ID: id, Name: id, Source: dir}}
	l.tools()
	l.skills()
	l.manifest()
	l.prompts()
	l.hooks()
	if len(l.errs) > 0 {
		return nil, sortedProblems(errors.Join(l.errs...))
	}
	return l.a, nil
}

// loading is one assistant that is being read.
type loading struct {
	dir  string
	fsys fs.FS // of dir, and nothing beside it
	opts *LoadOptions
	a    *Assistant
	errs []error
}

// shown is a file as people call it.
func (l *loading) shown(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

// fail notes an error of a file.
func (l *loading) fail(name string, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		err = &Problem{File: l.shown(name), Text: err.Error()}
	}
	l.errs = append(l.errs, err)
}

func (l *loading) note(problems []*Problem) {
	for _, p := range problems {
		l.errs = append(l.errs, p)
	}
}

// first returns the first of some files that is there.
func (l *loading) first(names ...string) (string, bool) {
	for _, name := range names {
		if _, err := fs.Stat(l.fsys, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, true
		}
	}
	return "", false
}

func (l *loading) manifest() {
	name, ok := l.first(manifests...)
	if !ok {
		l.fail(manifests[0], &Problem{File: l.shown(manifests[0]), Text: "there is no such file, and no atoll.yaml"})
		return
	}
	doc, err := readDocument(l.fsys, name, l.shown(name))
	if err != nil {
		l.fail(name, err)
		return
	}
	m := &manifest{reader: reader{file: l.shown(name), env: l.opts.Env}, opts: l.opts, a: l.a}
	m.read(doc)
	l.note(m.problems)
}

func (l *loading) prompts() {
	name, ok := l.first("prompts.yml", "prompts.yaml")
	if !ok {
		return
	}
	doc, err := readDocument(l.fsys, name, l.shown(name))
	if err != nil {
		l.fail(name, err)
		return
	}
	r := &reader{file: l.shown(name)}
	l.a.Prompts = r.prompts(doc, "")
	l.note(r.problems)
}

func (l *loading) hooks() {
	name, ok := l.first("src/index.ts", "src/index.js")
	if !ok {
		return
	}
	compile := hook.Compile
	if l.opts.Hooks != nil {
		compile = l.opts.Hooks.Compile
	}
	s, err := compile(l.fsys, name)
	if err != nil {
		for _, e := range leaves(err) {
			var p *hook.Problem
			if !errors.As(e, &p) {
				p = &hook.Problem{File: name, Text: e.Error()}
			}
			l.errs = append(l.errs, &Problem{File: l.shown(p.File), Line: p.Line, Column: p.Column, Text: p.Text})
		}
		return
	}
	l.a.Hooks = s
}

// tools reads the assistant's own servers.
func (l *loading) tools() {
	if _, ok := l.first("mcps"); !ok {
		return
	}
	env := l.opts.Env
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	servers, err := tool.Load(l.shown("mcps"), l.opts.Processes, env)
	l.note(Problems(err))
	l.a.Servers = servers
}

func (l *loading) skills() {
	if _, ok := l.first("skills"); !ok {
		return
	}
	sub, err := fs.Sub(l.fsys, "skills")
	if err != nil {
		l.fail("skills", err)
		return
	}
	list, problems, err := skill.Load(sub)
	if err != nil {
		l.fail("skills", err)
	}
	for _, p := range problems {
		if p.Fatal {
			l.errs = append(l.errs, &Problem{File: l.shown(path.Join("skills", p.File)), Line: p.Line, Field: p.Field, Text: p.Text})
		}
	}
	l.a.Skills = list
}

// sortedProblems puts mistakes in the order of files and lines.
func sortedProblems(err error) error {
	list := leaves(err)
	slices.SortStableFunc(list, func(x, y error) int {
		var a, b *Problem
		if !errors.As(x, &a) || !errors.As(y, &b) {
			return 0
		}
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return errors.Join(list...)
}

// Problems returns the single mistakes of an error of Load or Read, and of those
// that read connectors and servers.
func Problems(err error) []*Problem {
	var list []*Problem
	for _, e := range leaves(err) {
		var p *Problem
		var c *model.Problem
		var f *tool.Fault
		switch {
		case errors.As(e, &p):
		case errors.As(e, &c):
			p = &Problem{File: c.File, Line: c.Line, Field: c.Field, Text: c.Text}
		case errors.As(e, &f):
			p = &Problem{File: f.File, Line: f.Line, Field: f.Field, Text: f.Text}
		default:
			p = &Problem{Text: e.Error()}
		}
		list = append(list, p)
	}
	return list
}
