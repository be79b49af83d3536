package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

const maxConfig = 1 << 20 // bytes of a file

// source is a configuration file that is being read.
type source struct {
	name     string
	project  bool // it came with somebody's code: it sets only what harms nobody
	settings map[string]setting
	contexts map[string]endpoint
	errs     []error
}

// bad notes a problem at a node.
func (s *source) bad(n *yaml.Node, format string, args ...any) {
	s.errs = append(s.errs, problem{fmt.Sprintf("%s:%d:%d", s.name, n.Line, n.Column), fmt.Sprintf(format, args...)})
}

// readConfig reads a file, which may not be there, and reports every problem
// in it at once.
func readConfig(name string, project bool) (*source, error) {
	s := &source{name: name, project: project, settings: make(map[string]setting), contexts: make(map[string]endpoint)}
	b, err := readSmall(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("configuration: %w", err)
	}
	root, err := parseYAML(name, b)
	if err != nil || root == nil {
		return s, err
	}
	s.section("", root)
	return s, errors.Join(s.errs...)
}

// readSmall reads a regular file of a size that a person would write.
func readSmall(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = problem{name, "it is not a file"}
	}
	if err == nil && info.Size() > maxConfig {
		err = problem{name, bytesText(info.Size()) + " is too much for a configuration"}
	}
	if err != nil {
		return nil, finish(err, f)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return b, finish(err, f)
}

// parseYAML returns the top of the one document in a file; nil for none.
func parseYAML(name string, b []byte) (*yaml.Node, error) {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	err = l.Load(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if again := l.Load(&more); again == nil {
			return nil, problem{fmt.Sprintf("%s:%d", name, more.Line), "a second document begins here: a configuration is one"}
		} else if !errors.Is(again, io.EOF) {
			err = again
		}
	}
	var le *yaml.LoadError
	if errors.As(err, &le) {
		text := le.Message
		if le.ContextMsg != "" {
			text = le.ContextMsg + ": " + text
		}
		return nil, problem{fmt.Sprintf("%s:%d:%d", name, le.Mark.Line, le.Mark.Column), text}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, name, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// section reads a mapping whose keys begin with prefix.
func (s *source) section(prefix string, n *yaml.Node) {
	n = resolved(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // a section that somebody has commented out
	}
	if n.Kind != yaml.MappingNode {
		s.bad(n, "%s must hold keys, like %s", where(prefix), example(prefix))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], n.Content[i+1]
		name := prefix + kn.Value
		if line, twice := seen[name]; twice {
			s.bad(kn, "%s is there already, in line %d", name, line)
			continue
		}
		seen[name] = kn.Line
		k := findKey(name)
		switch {
		case kn.Kind != yaml.ScalarNode:
			s.bad(kn, "a key must be a word")
		case name == "contexts" && s.project:
			s.bad(kn, "a project's file can't set contexts: where atoll connects to is yours to say, in your own atoll.yaml")
		case name == "contexts":
			s.readContexts(vn)
		case s.project && prefix == "" && slices.Contains(projectfile.Keys(), name):
			// It is of the project's sandbox: 'atoll up' reads it.
		case k != nil:
			s.value(k, kn, vn)
		case isSection(name):
			s.section(name+".", vn)
		default:
			known := siblings(prefix)
			if s.project && prefix == "" {
				known = append(known, projectfile.Keys()...)
			}
			s.bad(kn, "unknown key %q%s", name, spell.Hint(name, known))
		}
	}
}

func where(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return strings.TrimSuffix(prefix, ".")
}

func example(prefix string) string {
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.name, prefix); ok {
			return fmt.Sprintf("%q", rest+": …")
		}
	}
	return "\"NAME: …\""
}

func isSection(name string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// siblings are the keys and sections that could stand where a name stands.
func siblings(prefix string) []string {
	var list []string
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.name, prefix)
		if !ok || k.shell {
			continue
		}
		first, _, _ := strings.Cut(rest, ".")
		list = append(list, prefix+first)
	}
	if prefix == "" {
		list = append(list, "contexts")
	}
	return list
}

// value reads the value of a key.
func (s *source) value(k *key, kn, vn *yaml.Node) {
	vn = resolved(vn)
	switch {
	case s.project && !k.project:
		s.bad(kn, "a project's file can't set %s, only what harms nobody (see 'atoll config --help'): use your own atoll.yaml or $%s", k.name, k.env())
		return
	case k.shell:
		s.bad(kn, "%s is not for files: make a context of it ('atoll login', 'atoll context add')", k.name)
		return
	}
	set := setting{key: k, origin: fmt.Sprintf("%s:%d", s.name, kn.Line)}
	nodes := []*yaml.Node{vn}
	if k.form.list {
		if vn.Kind != yaml.SequenceNode {
			s.bad(vn, "%s must be a list, like [%s]", k.name, "a, b")
			return
		}
		nodes = vn.Content
	}
	for _, n := range nodes {
		n = resolved(n)
		text := n.Value
		if k.form.tree && n.Kind == yaml.MappingNode {
			var err error
			if text, err = asJSON(n); err != nil {
				s.bad(n, "%s: %s", k.name, bare(err))
				continue
			}
		} else if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || k.form.tree {
			s.bad(n, "%s must have one value: %s", k.name, k.help)
			continue
		}
		v, err := k.form.parse(text)
		if err == nil && isPath(k) && !filepath.IsAbs(n.Value) && !strings.HasPrefix(n.Value, "~/") {
			err = errors.New("must be absolute, or begin with ~/")
		}
		if err != nil {
			what := k.name
			if !k.form.tree {
				what += fmt.Sprintf(" %q", n.Value)
			}
			s.bad(n, "%s: %s", what, bare(err))
			continue
		}
		set.texts, set.values = append(set.texts, text), append(set.values, v)
	}
	s.settings[k.name] = set
}

// isPath reports whether a key names a file, which in a file is not relative to
// wherever somebody happens to stand.
func isPath(k *key) bool {
	return k.name == "home" || k.name == "kubernetes.kubeconfig" || k.name == "serve.socket" || strings.HasPrefix(k.name, "serve.tls.")
}

// readContexts reads the mapping of names to servers.
func (s *source) readContexts(n *yaml.Node) {
	n = resolved(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		s.bad(n, "contexts must hold names, each with a host: \"team: {host: https://atoll.example.com}\"")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn := n.Content[i]
		name := kn.Value
		if err := atoll.CheckName(name); err != nil {
			s.bad(kn, "contexts: %s", bare(err))
			continue
		}
		if _, twice := s.contexts[name]; twice {
			s.bad(kn, "contexts.%s is there already", name)
			continue
		}
		e := endpoint{origin: fmt.Sprintf("%s:%d", s.name, kn.Line)}
		s.readContext("contexts."+name+".", &e, kn, resolved(n.Content[i+1]))
		s.contexts[name] = e
	}
}

// readContext reads one server.
func (s *source) readContext(prefix string, e *endpoint, kn, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		s.bad(n, "%s must hold keys, like \"host: https://atoll.example.com\"", where(prefix))
		return
	}
	fields := []struct {
		name  string
		to    *string
		parse func(string) (string, error)
	}{{"host", &e.Host, parseHost}, {"token", &e.Token, parseToken}, {"token_file", &e.TokenFile, parseFilePath}, {"ca", &e.CA, parseFilePath}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fn, vn := n.Content[i], resolved(n.Content[i+1])
		var names []string
		known := false
		for _, f := range fields {
			names = append(names, prefix+f.name)
			if f.name != fn.Value {
				continue
			}
			known = true
			v, err := f.parse(vn.Value)
			switch {
			case *f.to != "":
				s.bad(fn, "%s is there already", prefix+f.name)
			case vn.Kind != yaml.ScalarNode || vn.Value == "":
				s.bad(vn, "%s must have one value", prefix+f.name)
			case err != nil && (f.name == "token" || strings.Contains(vn.Value, "@")): // what may be secret is not shown
				s.bad(vn, "%s: %s", prefix+f.name, bare(err))
			case err != nil:
				s.bad(vn, "%s %q: %s", prefix+f.name, vn.Value, bare(err))
			default:
				*f.to = v
			}
		}
		if !known {
			s.bad(fn, "unknown key %q%s", prefix+fn.Value, spell.Hint(prefix+fn.Value, names))
		}
	}
	if child(n, "host") == nil {
		s.bad(kn, "%s has no host", where(prefix))
	}
	if e.Token != "" && e.TokenFile != "" {
		s.bad(kn, "%s has a token and a token_file: one of them is enough", where(prefix))
	}
}

// resolved follows an alias. What it leads to is looked at as if it stood
// here; the depth of a configuration is bounded, so nothing grows.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// findProject returns the nearest project file from a directory up to the root
// of its repository, or the home directory; outside of both only the directory
// counts. Other file systems are not looked at. Whoever
// wrote it, it sets only what harms nobody.
func findProject(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil //nolint:nilerror // who stands nowhere has no project
	}
	for _, d := range climb(dir) {
		name := filepath.Join(d, projectfile.Name)
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", fmt.Errorf("project configuration: %w", err)
		case info.IsDir():
			continue
		}
		return name, nil
	}
	return "", nil
}

// climb lists the directories in which a project file counts, nearest first.
func climb(dir string) []string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	device, known := deviceOf(dir)
	list := []string{dir}
	for d := dir; ; d = filepath.Dir(d) {
		if at, ok := deviceOf(d); !known || !ok || at != device {
			return list[:1]
		}
		if d != dir {
			list = append(list, d)
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil || d == home {
			return list
		}
		if d == filepath.Dir(d) {
			return list[:1] // neither in a repository nor at home
		}
	}
}
