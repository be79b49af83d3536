package config

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
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

const maxConfig = 1 << 20 // bytes of a file

// source is a configuration file that is being read.
type source struct {
	name     string
	project  bool // it came with somebody's code: it sets only what harms nobody
	Settings map[string]Setting
	contexts map[string]Endpoint
	errs     []error
}

// addError notes a problem at a node.
func (s *source) addError(n *yaml.Node, format string, args ...any) {
	s.errs = append(s.errs, Problem{fmt.Sprintf("%s:%d:%d", s.name, n.Line, n.Column), fmt.Sprintf(format, args...)})
}

// ReadFile reads a file, which may not be there, and reports every problem
// in it at once.
func ReadFile(name string, project bool) (*source, error) {
	s := &source{name: name, project: project, Settings: make(map[string]Setting), contexts: make(map[string]Endpoint)}
	b, err := ReadSmallFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("configuration: %w", err)
	}
	root, err := ParseYAML(name, b)
	if err != nil || root == nil {
		return s, err
	}
	s.readSection("", root)
	return s, errors.Join(s.errs...)
}

// ReadSmallFile reads a regular file of a size that a person would write.
func ReadSmallFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = Problem{name, "it is not a file"}
	}
	if err == nil && info.Size() > maxConfig {
		err = Problem{name, output.FormatBytes(info.Size()) + " is too much for a configuration"}
	}
	if err != nil {
		return nil, output.CloseAfter(err, f)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return b, output.CloseAfter(err, f)
}

// ParseYAML returns the top of the one document in a file; nil for none.
func ParseYAML(name string, b []byte) (*yaml.Node, error) {
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
			return nil, Problem{fmt.Sprintf("%s:%d", name, more.Line), "a second document begins here: a configuration is one"}
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
		return nil, Problem{fmt.Sprintf("%s:%d:%d", name, le.Mark.Line, le.Mark.Column), text}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, name, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// readSection reads a mapping whose keys begin with prefix.
func (s *source) readSection(prefix string, n *yaml.Node) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // a section that somebody has commented out
	}
	if n.Kind != yaml.MappingNode {
		s.addError(n, "%s must hold keys, like %s", sectionName(prefix), exampleKey(prefix))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], n.Content[i+1]
		name := prefix + kn.Value
		if line, twice := seen[name]; twice {
			s.addError(kn, "%s is set already in line %d", name, line)
			continue
		}
		seen[name] = kn.Line
		k := FindKey(name)
		switch {
		case kn.Kind != yaml.ScalarNode:
			s.addError(kn, "a key must be a word")
		case name == "contexts" && s.project:
			s.addError(kn, "a project's file can't set contexts: where atoll connects to is yours to say, in your own atoll.yaml")
		case name == "contexts":
			s.readContexts(vn)
		case s.project && prefix == "" && slices.Contains(projectfile.Keys(), name):
			// It is of the project's sandbox: 'atoll up' reads it.
		case k != nil:
			s.readValue(k, kn, vn)
		case isSection(name):
			s.readSection(name+".", vn)
		default:
			known := listSiblings(prefix)
			if s.project && prefix == "" {
				known = append(known, projectfile.Keys()...)
			}
			s.addError(kn, "unknown key %q%s", name, suggest.Hint(name, known))
		}
	}
}

func sectionName(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return strings.TrimSuffix(prefix, ".")
}

func exampleKey(prefix string) string {
	for _, k := range Keys {
		if rest, ok := strings.CutPrefix(k.Name, prefix); ok {
			return fmt.Sprintf("%q", rest+": …")
		}
	}
	return "\"NAME: …\""
}

func isSection(name string) bool {
	return slices.ContainsFunc(Keys, func(k key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// listSiblings are the keys and sections that could stand where a name stands.
func listSiblings(prefix string) []string {
	var list []string
	for _, k := range Keys {
		rest, ok := strings.CutPrefix(k.Name, prefix)
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

// readValue reads the value of a key.
func (s *source) readValue(k *key, kn, vn *yaml.Node) {
	vn = resolveAlias(vn)
	switch {
	case s.project && !k.Project:
		s.addError(kn, "a project's file can't set %s (see 'atoll config --help'): use your own atoll.yaml or $%s", k.Name, k.envName())
		return
	case k.shell:
		s.addError(kn, "%s is not for files: make a context of it ('atoll login', 'atoll context add')", k.Name)
		return
	}
	set := Setting{Key: k, Origin: fmt.Sprintf("%s:%d", s.name, kn.Line)}
	nodes := []*yaml.Node{vn}
	if k.Form.List {
		if vn.Kind != yaml.SequenceNode {
			s.addError(vn, "%s must be a list, like [%s]", k.Name, "a, b")
			return
		}
		nodes = vn.Content
	}
	for _, n := range nodes {
		n = resolveAlias(n)
		text := n.Value
		if k.Form.tree && n.Kind == yaml.MappingNode {
			var err error
			if text, err = asJSON(n); err != nil {
				s.addError(n, "%s: %s", k.Name, TextWithoutKind(err))
				continue
			}
		} else if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || k.Form.tree {
			s.addError(n, "%s must have one value: %s", k.Name, k.Help)
			continue
		}
		v, err := k.Form.parse(text)
		if err == nil && isPath(k) && !filepath.IsAbs(n.Value) && !strings.HasPrefix(n.Value, "~/") {
			err = errors.New("must be absolute, or begin with ~/")
		}
		if err != nil {
			what := k.Name
			if !k.Form.tree {
				what += fmt.Sprintf(" %q", n.Value)
			}
			s.addError(n, "%s: %s", what, TextWithoutKind(err))
			continue
		}
		set.Texts, set.values = append(set.Texts, text), append(set.values, v)
	}
	s.Settings[k.Name] = set
}

// isPath reports whether a key holds a path. In a configuration file, such a path is relative
// to the file's directory.
func isPath(k *key) bool {
	return k.Name == "home" || k.Name == "kubernetes.kubeconfig" || k.Name == "serve.socket" || k.Name == "secrets.key_file" || strings.HasPrefix(k.Name, "serve.tls.")
}

// readContexts reads the mapping of names to servers.
func (s *source) readContexts(n *yaml.Node) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		s.addError(n, "contexts must hold names, each with a host: \"team: {host: https://atoll.example.com}\"")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn := n.Content[i]
		name := kn.Value
		if err := atoll.CheckName(name); err != nil {
			s.addError(kn, "contexts: %s", TextWithoutKind(err))
			continue
		}
		if _, twice := s.contexts[name]; twice {
			s.addError(kn, "contexts.%s is there already", name)
			continue
		}
		e := Endpoint{Origin: fmt.Sprintf("%s:%d", s.name, kn.Line)}
		s.readContext("contexts."+name+".", &e, kn, resolveAlias(n.Content[i+1]))
		s.contexts[name] = e
	}
}

// readContext reads one server.
func (s *source) readContext(prefix string, e *Endpoint, kn, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		s.addError(n, "%s must hold keys, like \"host: https://atoll.example.com\"", sectionName(prefix))
		return
	}
	fields := []struct {
		name  string
		to    *string
		parse func(string) (string, error)
	}{{"host", &e.Host, ParseHost}, {"token", &e.Token, ParseToken}, {"token_file", &e.TokenFile, parseFilePath}, {"ca", &e.CA, parseFilePath}, {"cert", &e.Cert, parseFilePath}, {"key", &e.Key, parseFilePath}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fn, vn := n.Content[i], resolveAlias(n.Content[i+1])
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
				s.addError(fn, "%s is there already", prefix+f.name)
			case vn.Kind != yaml.ScalarNode || vn.Value == "":
				s.addError(vn, "%s must have one value", prefix+f.name)
			case err != nil && (f.name == "token" || strings.Contains(vn.Value, "@")): // what may be secret is not shown
				s.addError(vn, "%s: %s", prefix+f.name, TextWithoutKind(err))
			case err != nil:
				s.addError(vn, "%s %q: %s", prefix+f.name, vn.Value, TextWithoutKind(err))
			default:
				*f.to = v
			}
		}
		if !known {
			s.addError(fn, "unknown key %q%s", prefix+fn.Value, suggest.Hint(prefix+fn.Value, names))
		}
	}
	if FindNode(n, "host") == nil {
		s.addError(kn, "%s has no host", sectionName(prefix))
	}
	if (e.Cert == "") != (e.Key == "") {
		s.addError(kn, "%s: cert and key belong together", sectionName(prefix))
	}
	if e.Token != "" && e.TokenFile != "" {
		s.addError(kn, "%s has a token and a token_file: one of them is enough", sectionName(prefix))
	}
}

// resolveAlias follows an alias. What it leads to is looked at as if it stood
// here; the depth of a configuration is bounded, so nothing grows.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// findProject returns the nearest project file from dir up to the root of its repository, or
// the home directory; outside of both it checks only dir. It stays on the file system of dir.
// The file can only set keys that are marked as project keys.
func findProject(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil // who stands nowhere has no project
	}
	for _, d := range listParents(dir) {
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

// listParents lists the directories in which a project file counts, nearest first.
func listParents(dir string) []string {
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
