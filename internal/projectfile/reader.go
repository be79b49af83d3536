package projectfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// reader turns nodes into values and notes what is wrong with them.
type reader struct {
	name string
	lax  bool // unknown keys at the top are somebody else's
	errs []error
}

// problem is one mistake in a file.
type problem struct{ where, what string }

func (p problem) Error() string { return p.where + ": " + p.what }
func (p problem) Unwrap() error { return atoll.ErrInvalid }

// bad notes a problem at a node.
func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, problem{fmt.Sprintf("%s:%d:%d", r.name, n.Line, n.Column), fmt.Sprintf(format, args...)})
}

func (r *reader) err() error { return errors.Join(r.errs...) }

// fields are the keys of a mapping and what reads their values.
type fields map[string]func(n *yaml.Node, path string)

// resolved follows an alias. What it leads to is looked at as if it stood here;
// the depth of what is read is bounded, so nothing grows.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// mapping calls f for every key of a mapping, which may be there once.
func (r *reader) mapping(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	n = resolved(n)
	if isNull(n) {
		return // a section that somebody has commented out
	}
	if n.Kind != yaml.MappingNode {
		r.bad(n, "%s must hold keys", orFile(path))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolved(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.bad(k, "a key must be a word")
			continue
		}
		if line, twice := seen[k.Value]; twice {
			r.bad(k, "%s is there already, in line %d", join(path, k.Value), line)
			continue
		}
		seen[k.Value] = k.Line
		f(k, v)
	}
}

// section reads a mapping whose keys are known.
func (r *reader) section(n *yaml.Node, path string, known fields) {
	r.mapping(n, path, func(k, v *yaml.Node) {
		read, ok := known[k.Value]
		if !ok && r.lax && path == "" {
			return
		}
		if !ok {
			r.bad(k, "unknown key %q%s", join(path, k.Value), spell.Hint(k.Value, keysOf(known)))
			return
		}
		read(v, join(path, k.Value))
	})
}

func keysOf(known fields) []string {
	var list []string
	for k := range known {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// scalar returns the text of a value; not ok: it is none, which is noted.
func (r *reader) scalar(n *yaml.Node, path string) (text string, ok bool) {
	n = resolved(n)
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n):
		r.bad(n, "%s must have one value", path)
	case strings.ContainsRune(n.Value, 0):
		r.bad(n, "%s must not hold NUL bytes", path)
	default:
		return n.Value, true
	}
	return "", false
}

// text reads a value that may be anything but empty.
func (r *reader) text(to *string) func(*yaml.Node, string) {
	return r.parsed(func(text string) error {
		if text == "" {
			return errors.New("must not be empty")
		}
		*to = text
		return nil
	})
}

// oneOf reads a word out of some.
func oneOf[T ~string](r *reader, to *T, words ...T) func(*yaml.Node, string) {
	return r.parsed(func(text string) error {
		var all []string
		for _, w := range words {
			if string(w) == text {
				*to = w
				return nil
			}
			all = append(all, string(w))
		}
		return fmt.Errorf("must be %s or %s%s", strings.Join(all[:len(all)-1], ", "), all[len(all)-1], spell.Hint(text, all))
	})
}

// parsed reads a value that parse takes.
func (r *reader) parsed(parse func(text string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		text, ok := r.scalar(n, path)
		if !ok {
			return
		}
		if err := parse(text); err != nil {
			r.bad(n, "%s %q: %v", path, text, err)
		}
	}
}

// texts reads a list of values, of which check may be nil.
func (r *reader) texts(to *[]string, check func(string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		for i, item := range r.list(n, path) {
			r.parsed(func(text string) error {
				if text == "" {
					return errors.New("must not be empty")
				}
				if check != nil {
					if err := check(text); err != nil {
						return err
					}
				}
				*to = append(*to, text)
				return nil
			})(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// list returns the items of a list; one value that is no list is one item.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	n = resolved(n)
	switch {
	case isNull(n):
		return nil
	case n.Kind == yaml.SequenceNode:
		if len(n.Content) > maxItems {
			r.bad(n, "%s has %d items; %d are the most", path, len(n.Content), maxItems)
			return nil
		}
		return n.Content
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	}
	r.bad(n, "%s must be a list", path)
	return nil
}

// maxItems bounds a list.
const maxItems = 1000

// size reads bytes: 512m, 8g, "8 GB"; all units are powers of 1024.
func (r *reader) size(to *int64) func(*yaml.Node, string) {
	return r.parsed(func(text string) error {
		digits := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bkmgtie ")
		unit := strings.TrimSpace(strings.ToLower(strings.TrimSpace(text))[len(digits):])
		shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || !ok || !(n > 0) || n*float64(int64(1)<<shift) > 1<<60 {
			return errors.New("a size is a number above 0 with k, m, g or t, like 4g")
		}
		*to = int64(n * float64(int64(1)<<shift))
		return nil
	})
}

// amount reads a number above 0.
func (r *reader) amount(to *float64) func(*yaml.Node, string) {
	return r.parsed(func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) || n > 1e6 {
			return errors.New("must be a number above 0, like 1.5")
		}
		*to = n
		return nil
	})
}

// port reads the number of a port.
func (r *reader) port(to *int) func(*yaml.Node, string) {
	return r.parsed(func(text string) (err error) {
		*to, err = parsePort(text)
		return err
	})
}

func parsePort(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, errors.New("must be a port, 1 to 65535")
	}
	return n, nil
}

// variable reads one variable: its value, or none where it is the host's.
func (r *reader) variable(k, v *yaml.Node, path string) (Variable, bool) {
	name := k.Value
	if name == "" || strings.ContainsAny(name, "=\x00\n") {
		r.bad(k, "%s: the name of a variable must not be empty or hold '='", path)
		return Variable{}, false
	}
	if isNull(v) {
		return Variable{Name: name, Host: true, From: name}, true
	}
	value, ok := r.scalar(v, join(path, name))
	return Variable{Name: name, Value: value}, ok
}

// commands reads one command or a list of them.
func (r *reader) commands(to *[]Command) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		for i, item := range r.list(n, path) {
			if c, ok := r.command(resolved(item), fmt.Sprintf("%s[%d]", path, i)); ok {
				*to = append(*to, c)
			}
		}
	}
}

// command reads one: a line for the shell, a list of arguments, or both with a
// name: {name: dev, run: npm run dev}.
func (r *reader) command(n *yaml.Node, path string) (Command, bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		var c Command
		before := len(r.errs)
		r.texts(&c.Args, nil)(n, path)
		if len(c.Args) == 0 && len(r.errs) == before {
			r.bad(n, "%s: a command of no arguments", path)
		}
		return c, len(r.errs) == before
	case yaml.MappingNode:
		var name string
		var c Command
		before := len(r.errs)
		r.section(n, path, fields{
			"name": r.parsed(func(text string) error {
				name = text
				return atoll.CheckName(text)
			}),
			"run": func(v *yaml.Node, path string) {
				if v.Kind == yaml.MappingNode { // it could be the one that it is in
					r.bad(v, "%s must be a line for the shell, or a list of arguments", path)
					return
				}
				c, _ = r.command(v, path)
			},
		})
		if len(r.errs) == before && c.Shell == "" && c.Args == nil {
			r.bad(n, "%s has no run: what is to be done", path)
		}
		c.Name = name
		return c, len(r.errs) == before
	}
	text, ok := r.scalar(n, path)
	if ok && strings.TrimSpace(text) == "" {
		r.bad(n, "%s is empty", path)
		ok = false
	}
	return Command{Shell: text}, ok
}
