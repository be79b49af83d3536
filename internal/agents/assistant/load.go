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
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// LoadOptions are the names and functions that assistants are checked against. Nil
// fields are not checked.
type LoadOptions struct {
	Agents     map[string]agent.Agent
	Connectors map[string]model.Connector
	Servers    *tool.Servers // the app's
	Skills     []skill.Skill // the app's
	Processes  tool.Processes
	Env        func(string) (string, bool) // looks up "$ENV.NAME"; nil: nothing is set
	Hooks      *hook.Cache                 // nil: none
}

// Limits of an app directory.
const (
	maxAssistants = 1000
	maxLevels     = 5 // of parent directories of an assistant
)

// manifestNames are the names of an assistant's manifest.
var manifestNames = []string{"package.yao", "atoll.yaml", "atoll.yml"}

// Loaded are the assistants of a directory.
type Loaded struct {
	Assistants map[string]*Assistant // those that serve
	Faults     map[string]error      // what is wrong with the files of an assistant, whether one serves or not
}

// Load loads the assistants of a directory, which may be missing. In place of an invalid assistant its version in last serves, if there is
// one; otherwise it is left out, unless only some of its skills are invalid, which it then lacks. The error joins a *Problem for each
// fault, with file, line and field.
func Load(dir string, opts LoadOptions, last map[string]*Assistant) (Loaded, error) {
	found, errs := Find(dir)
	all := Loaded{Assistants: make(map[string]*Assistant, len(found)), Faults: make(map[string]error)}
	for id, at := range found {
		l := readAll(at, id, &opts)
		err := l.err()
		if err == nil {
			all.Assistants[id] = l.a
			continue
		}
		all.Faults[id] = err
		errs = errors.Join(errs, err)
		switch a := last[id]; {
		case a != nil:
			old := *a
			old.Problem = "its last valid version serves: " + FirstProblem(err)
			all.Assistants[id] = &old
		case len(l.errs) == 0:
			l.a.Problem = "it lacks a skill: " + FirstProblem(err)
			all.Assistants[id] = l.a
		}
	}
	return all, sortedProblems(errs)
}

// FirstProblem returns the first of an error's problems, as a line for display.
func FirstProblem(err error) string {
	list := splitErrors(err)
	if len(list) < 2 {
		return err.Error()
	}
	return fmt.Sprintf("%v (and %d more)", list[0], len(list)-1)
}

// Find returns the directories of assistants beneath dir, by their ids. The error
// reports directories whose names can't be ids.
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
		if len(names) > 0 && slices.ContainsFunc(list, func(e fs.DirEntry) bool { return slices.Contains(manifestNames, e.Name()) }) {
			id := strings.Join(names, ".")
			if len(found) >= maxAssistants {
				errs = append(errs, &Problem{File: at, Text: fmt.Sprintf("more than %d assistants", maxAssistants)})
				return
			}
			found[id] = at
			return // subdirectories belong to the assistant
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

// Read loads one assistant. An error joins a *Problem for each fault.
func Read(dir, id string, opts LoadOptions) (*Assistant, error) {
	l := readAll(dir, id, &opts)
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.a, nil
}

// readAll reads all files of an assistant.
func readAll(dir, id string, opts *LoadOptions) *loader {
	l := &loader{dir: dir, fsys: skill.DirFS(dir), opts: opts, a: &Assistant{ID: id, Name: id, Source: dir}}
	l.readServers()
	l.readSkills()
	l.readManifest()
	l.readPrompts()
	l.readHooks()
	return l
}

// err returns the problems of all files; nil: there are none.
func (l *loader) err() error {
	return sortedProblems(errors.Join(errors.Join(l.errs...), errors.Join(l.skillErrs...)))
}

// loader loads one assistant.
type loader struct {
	dir  string
	fsys fs.FS // of dir
	opts *LoadOptions
	a    *Assistant
	errs []error

	skillErrs []error // of skills that the assistant can do without
}

// displayPath returns the path of a file for error messages.
func (l *loader) displayPath(name string) string {
	return filepath.Join(l.dir, filepath.FromSlash(name))
}

// addError records an error of a file.
func (l *loader) addError(name string, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		err = &Problem{File: l.displayPath(name), Text: err.Error()}
	}
	l.errs = append(l.errs, err)
}

func (l *loader) addProblems(problems []*Problem) {
	for _, p := range problems {
		l.errs = append(l.errs, p)
	}
}

// firstExisting returns the first of some files that exists.
func (l *loader) firstExisting(names ...string) (string, bool) {
	for _, name := range names {
		if _, err := fs.Stat(l.fsys, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, true
		}
	}
	return "", false
}

func (l *loader) readManifest() {
	name, ok := l.firstExisting(manifestNames...)
	if !ok {
		l.addError(manifestNames[0], &Problem{File: l.displayPath(manifestNames[0]), Text: "there is no such file, and no atoll.yaml"})
		return
	}
	doc, err := readDocument(l.fsys, name, l.displayPath(name))
	if err != nil {
		l.addError(name, err)
		return
	}
	m := &manifest{fieldReader: fieldReader{file: l.displayPath(name), env: l.opts.Env}, opts: l.opts, a: l.a}
	m.readManifest(doc)
	l.addProblems(m.problems)
}

func (l *loader) readPrompts() {
	name, ok := l.firstExisting("prompts.yml", "prompts.yaml")
	if !ok {
		return
	}
	doc, err := readDocument(l.fsys, name, l.displayPath(name))
	if err != nil {
		l.addError(name, err)
		return
	}
	r := &fieldReader{file: l.displayPath(name)}
	l.a.Prompts = r.readPrompts(doc, "")
	l.addProblems(r.problems)
}

func (l *loader) readHooks() {
	name, ok := l.firstExisting("src/index.ts", "src/index.js")
	if !ok {
		return
	}
	compile := hook.Compile
	if l.opts.Hooks != nil {
		compile = l.opts.Hooks.Compile
	}
	s, err := compile(l.fsys, name)
	if err != nil {
		for _, e := range splitErrors(err) {
			var p *hook.Problem
			if !errors.As(e, &p) {
				p = &hook.Problem{File: name, Text: e.Error()}
			}
			l.errs = append(l.errs, &Problem{File: l.displayPath(p.File), Line: p.Line, Column: p.Column, Text: p.Text})
		}
		return
	}
	l.a.Hooks = s
}

// readServers loads the assistant's own servers.
func (l *loader) readServers() {
	if _, ok := l.firstExisting("mcps"); !ok {
		return
	}
	env := l.opts.Env
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	servers, err := tool.Load(l.displayPath("mcps"), l.opts.Processes, env)
	l.addProblems(Problems(err))
	l.a.Servers = servers
}

func (l *loader) readSkills() {
	if _, ok := l.firstExisting("skills"); !ok {
		return
	}
	sub, err := fs.Sub(l.fsys, "skills")
	if err != nil {
		l.addError("skills", err)
		return
	}
	list, problems, err := skill.Load(sub)
	if err != nil {
		l.addError("skills", err)
	}
	for _, p := range problems {
		if p.Fatal {
			l.skillErrs = append(l.skillErrs, &Problem{File: l.displayPath(path.Join("skills", p.File)), Line: p.Line, Field: p.Field, Text: p.Text})
		}
	}
	l.a.Skills = list
}

// sortedProblems sorts problems by file and line.
func sortedProblems(err error) error {
	list := splitErrors(err)
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

// Problems returns the single problems of an error of Load or Read, and of errors of
// loading connectors and servers.
func Problems(err error) []*Problem {
	var list []*Problem
	for _, e := range splitErrors(err) {
		var p *Problem
		var c *model.Problem
		var f *tool.Problem
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
