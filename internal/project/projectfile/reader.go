package projectfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// reader converts nodes to values and collects mistakes.
type reader struct {
	name string
	lax  bool // ignore unknown top-level keys
	errs []error

	readOther func(name string) ([]byte, error) // reads another file of the working tree; nil: none
}

// read reads another file of the working tree.
func (r *reader) read(name string) ([]byte, error) {
	if r.readOther == nil {
		return nil, errNoFiles
	}
	return r.readOther(name)
}

// problem is one mistake in a file.
type problem struct{ where, what string }

func (p problem) Error() string { return p.where + ": " + p.what }
func (p problem) Unwrap() error { return atoll.ErrInvalid }

// addProblem records a mistake at a node.
func (r *reader) addProblem(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, problem{fmt.Sprintf("%s:%d:%d", r.name, n.Line, n.Column), fmt.Sprintf(format, args...)})
}

func (r *reader) joinErrors() error { return errors.Join(r.errs...) }

// fields maps the keys of a mapping to the functions that parse their values.
type fields map[string]func(n *yaml.Node, path string)

// resolveAlias follows an alias. Its target is handled as if it stood here. The depth of parsing is
// limited, so the result can't explode.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// eachKey calls f for every key of a mapping. A repeated key is a mistake.
func (r *reader) eachKey(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	n = resolveAlias(n)
	if isNull(n) {
		return // an empty section, such as one with all lines commented out
	}
	if n.Kind != yaml.MappingNode {
		r.addProblem(n, "%s must hold keys", orFile(path))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolveAlias(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.addProblem(k, "a key must be a word")
			continue
		}
		if line, twice := seen[k.Value]; twice {
			r.addProblem(k, "%s is set already in line %d", joinPath(path, k.Value), line)
		}
		seen[k.Value] = k.Line
		f(k, v)
	}
}

// parseSection parses a mapping with known keys.
func (r *reader) parseSection(n *yaml.Node, path string, known fields) {
	r.eachKey(n, path, func(k, v *yaml.Node) {
		read, ok := known[k.Value]
		if !ok && r.lax && path == "" {
			return
		}
		if !ok {
			r.addProblem(k, "unknown key %q%s", joinPath(path, k.Value), suggest.Hint(k.Value, keysOf(known)))
			return
		}
		read(v, joinPath(path, k.Value))
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

func joinPath(path, key string) string {
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

// scalarText returns the text of a value. ok is false if it is not a single value; then that is recorded.
func (r *reader) scalarText(n *yaml.Node, path string) (text string, ok bool) {
	n = resolveAlias(n)
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n):
		r.addProblem(n, "%s must have one value", path)
	case strings.ContainsRune(n.Value, 0):
		r.addProblem(n, "%s must not hold NUL bytes", path)
	default:
		return n.Value, true
	}
	return "", false
}

// textField parses a non-empty text.
func (r *reader) textField(to *string) func(*yaml.Node, string) {
	return r.parsedField(func(text string) error {
		if text == "" {
			return errors.New("must not be empty")
		}
		*to = text
		return nil
	})
}

// enumField parses one of the given words.
func enumField[T ~string](r *reader, to *T, words ...T) func(*yaml.Node, string) {
	return r.parsedField(func(text string) error {
		var all []string
		for _, w := range words {
			if string(w) == text {
				*to = w
				return nil
			}
			all = append(all, string(w))
		}
		return fmt.Errorf("must be %s or %s%s", strings.Join(all[:len(all)-1], ", "), all[len(all)-1], suggest.Hint(text, all))
	})
}

// parsedField parses a value with the given function.
func (r *reader) parsedField(parse func(text string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		text, ok := r.scalarText(n, path)
		if !ok {
			return
		}
		if err := parse(text); err != nil {
			r.addProblem(n, "%s %q: %v", path, text, err)
		}
	}
}

// textsField parses a list of texts. check may be nil.
func (r *reader) textsField(to *[]string, check func(string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		for i, item := range r.list(n, path) {
			r.parsedField(func(text string) error {
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

// list returns the items of a list. A single value is a list of one item.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	n = resolveAlias(n)
	switch {
	case isNull(n):
		return nil
	case n.Kind == yaml.SequenceNode:
		if len(n.Content) > maxItems {
			r.addProblem(n, "%s has %d items; the limit is %d", path, len(n.Content), maxItems)
			return nil
		}
		return n.Content
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	}
	r.addProblem(n, "%s must be a list", path)
	return nil
}

// maxItems is the largest number of items of a list.
const maxItems = 1000

// sizeField parses a size in bytes: 512m, 8g, "8 GB". All units are powers of 1024.
func (r *reader) sizeField(to *int64) func(*yaml.Node, string) {
	return r.parsedField(func(text string) error {
		digits := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bkmgtie ")
		unit := strings.TrimSpace(strings.ToLower(strings.TrimSpace(text))[len(digits):])
		shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || !ok || !(n > 0) || n*float64(int64(1)<<shift) > 1<<60 {
			return errors.New("must be a size above 0 with k, m, g or t, like 4g")
		}
		*to = int64(n * float64(int64(1)<<shift))
		return nil
	})
}

// numberField parses a number above 0.
func (r *reader) numberField(to *float64) func(*yaml.Node, string) {
	return r.parsedField(func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) || n > 1e6 {
			return errors.New("must be a number above 0, like 1.5")
		}
		*to = n
		return nil
	})
}

// portField parses a port number.
func (r *reader) portField(to *int) func(*yaml.Node, string) {
	return r.parsedField(func(text string) (err error) {
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

// parseVariable parses one variable with its value. Without a value it is the host's variable of that name.
func (r *reader) parseVariable(k, v *yaml.Node, path string) (Variable, bool) {
	name := k.Value
	if name == "" || strings.ContainsAny(name, "=\x00\n") {
		r.addProblem(k, "%s: the name of a variable must not be empty or hold '='", path)
		return Variable{}, false
	}
	if isNull(v) {
		return Variable{Name: name, Host: true, From: name}, true
	}
	value, ok := r.scalarText(v, joinPath(path, name))
	return Variable{Name: name, Value: value}, ok
}

// commandsField parses one command or a list of commands.
func (r *reader) commandsField(to *[]Command) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		for i, item := range r.list(n, path) {
			if c, ok := r.parseCommand(resolveAlias(item), fmt.Sprintf("%s[%d]", path, i)); ok {
				*to = append(*to, c)
			}
		}
	}
}

// parseCommand parses one command: a line for the shell, a list of arguments, or either with a name:
// {name: dev, run: npm run dev}.
func (r *reader) parseCommand(n *yaml.Node, path string) (Command, bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		var c Command
		before := len(r.errs)
		r.textsField(&c.Args, nil)(n, path)
		if len(c.Args) == 0 && len(r.errs) == before {
			r.addProblem(n, "%s: a command without arguments", path)
		}
		return c, len(r.errs) == before
	case yaml.MappingNode:
		var name string
		var c Command
		before := len(r.errs)
		r.parseSection(n, path, fields{
			"name": r.parsedField(func(text string) error {
				name = text
				return atoll.CheckName(text)
			}),
			"run": func(v *yaml.Node, path string) {
				if v.Kind == yaml.MappingNode { // could be an alias of the node around it
					r.addProblem(v, "%s must be a line for the shell, or a list of arguments", path)
					return
				}
				c, _ = r.parseCommand(v, path)
			},
		})
		if len(r.errs) == before && c.Shell == "" && c.Args == nil {
			r.addProblem(n, "%s has no run: the command is missing", path)
		}
		c.Name = name
		return c, len(r.errs) == before
	}
	text, ok := r.scalarText(n, path)
	if ok && strings.TrimSpace(text) == "" {
		r.addProblem(n, "%s is empty", path)
		ok = false
	}
	return Command{Shell: text}, ok
}
