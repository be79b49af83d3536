package git

import (
	"bytes"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
)

// attributeRule is a line of a .gitattributes: the attributes of the files that a pattern matches.
type attributeRule struct {
	dir, pattern string
	base         bool // the pattern is one of names, not of paths
	folder       bool // it matches directories alone
	settings     map[string]string
}

// States of an attribute besides its values.
const (
	attributeSet   = "set"
	attributeUnset = "unset"
)

// readAttributes returns the rules of a file; dir is "" or ends with a slash.
func (r *repository) readAttributes(file, dir string) []attributeRule {
	b, err := r.p.ReadFile(file)
	if err != nil {
		return nil // most directories have none
	}
	return r.parseAttributes(b, dir)
}

// parseAttributes returns the rules of a text; dir is "" or ends with a slash.
func (r *repository) parseAttributes(b []byte, dir string) []attributeRule {
	var list []attributeRule
	for line := range strings.Lines(string(b)) {
		r.p.Tick(1 + len(line))
		words := strings.Fields(line)
		if len(words) < 2 || words[0][0] == '#' || words[0][0] == '!' || strings.HasPrefix(words[0], "[attr]") {
			continue
		}
		r.p.Alloc(int64(256 + 3*len(line)))
		pattern, folder := strings.CutSuffix(words[0], "/")
		rule := attributeRule{dir: dir, base: !strings.Contains(pattern, "/"), folder: folder, pattern: strings.TrimPrefix(pattern, "/"), settings: make(map[string]string)}
		for _, word := range words[1:] {
			rule.set(word)
		}
		list = append(list, rule)
	}
	return list
}

// set adds an attribute as it is written: NAME, -NAME, !NAME or NAME=VALUE. The macro binary stands for three.
func (a *attributeRule) set(word string) {
	name, value, joined := strings.Cut(word, "=")
	switch {
	case joined:
		a.settings[name] = value
	case name == "binary":
		a.settings["binary"] = attributeSet
		for _, part := range []string{"diff", "merge", "text"} {
			a.settings[part] = attributeUnset
		}
	case strings.HasPrefix(name, "-"):
		a.settings[name[1:]] = attributeUnset
	case strings.HasPrefix(name, "!"):
		a.settings[name[1:]] = ""
	default:
		a.settings[name] = attributeSet
	}
}

// attribute returns the state of an attribute of a file: "set", "unset", a value, or "" for one that is not specified.
func (r *repository) attribute(name, attribute string) string {
	found := ""
	for _, rules := range r.attributeFiles(name) {
		found = r.stateOf(rules, name, attribute, found)
	}
	return found
}

// stateOf returns the state of an attribute of a file as rules say; found if they do not. The name of a directory ends with a
// slash.
func (r *repository) stateOf(rules []attributeRule, name, attribute, found string) string {
	name, folder := strings.CutSuffix(name, "/")
	for _, rule := range rules {
		value, ok := rule.settings[attribute]
		if !ok || rule.folder && !folder {
			continue
		}
		below, inside := strings.CutPrefix(name, rule.dir)
		if inside && (rule.base && glob.Match(r.p, rule.pattern, path.Base(name)) || !rule.base && matchParts(r.p, strings.Split(rule.pattern, "/"), strings.Split(below, "/"))) {
			found = value
		}
	}
	return found
}

// attributeFiles returns the rules that may apply to a file, the strongest last.
func (r *repository) attributeFiles(name string) [][]attributeRule {
	if r.attributes == nil {
		r.attributes = make(map[string][]attributeRule)
	}
	read := func(file, dir string) []attributeRule {
		rules, ok := r.attributes[file]
		if !ok {
			r.p.Alloc(int64(64 + len(file)))
			rules = r.readAttributes(file, dir)
			r.attributes[file] = rules
		}
		return rules
	}
	var list [][]attributeRule
	if file := r.conf.get("core.attributesfile"); file != "" {
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = r.p.Getenv("HOME") + "/" + rest
		}
		list = append(list, read(file, ""))
	}
	if r.root != "" {
		list = append(list, read(r.root+"/.gitattributes", ""))
		for n := range len(name) {
			if name[n] == '/' {
				list = append(list, read(r.root+"/"+name[:n]+"/.gitattributes", name[:n+1]))
			}
		}
	}
	return append(list, read(r.common+"/info/attributes", ""))
}

// looksBinary reports whether git takes a content for binary when it converts the ends of lines: it has a zero byte, a
// carriage return alone, or many control characters.
func looksBinary(b []byte) bool {
	printable, control := 0, 0
	for n, c := range b {
		switch {
		case c == 0 || c == '\r' && (n+1 == len(b) || b[n+1] != '\n'):
			return true
		case c == '\r' || c == '\n':
		case c == 127 || c < 32 && !bytes.ContainsRune([]byte("\b\t\033\014"), rune(c)):
			control++
		default:
			printable++
		}
	}
	return printable>>7 < control
}

// isBinaryFile reports whether both sides of a change are shown as binary: the attribute diff decides, then the content.
func (f *patch) isBinaryFile(name string, old, new []byte) bool {
	switch f.r.attribute(name, "diff") {
	case attributeUnset:
		return true
	case attributeSet:
		return false
	}
	return isBinary(old) || isBinary(new)
}

// checkAttributes is git check-attr: it prints attributes of files.
func (c *call) checkAttributes() error {
	names, paths := c.args, c.paths
	if !c.split && len(names) > 0 {
		names, paths = names[:1], names[1:]
	}
	if c.has("-a", "--all") {
		names, paths = nil, append(c.args, c.paths...)
	}
	if c.has("--stdin") {
		names = append(c.args, c.paths...)
		var err error
		if paths, err = c.readNames(); err != nil {
			return err
		}
	}
	for _, name := range paths {
		file, err := c.relativePath(name)
		if err != nil {
			return err
		}
		list := names
		if c.has("-a", "--all") {
			list = c.listAttributes(file)
		}
		for _, attribute := range list {
			value := orDefault(c.attribute(file, attribute), "unspecified")
			if _, err := c.p.Out().WriteString(c.quotePath(name) + ": " + attribute + ": " + value + "\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// listAttributes returns the names of the attributes that are specified for a file.
func (c *call) listAttributes(file string) []string {
	found := make(map[string]bool)
	for _, rules := range c.attributeFiles(file) {
		for _, rule := range rules {
			for name := range rule.settings {
				if c.attribute(file, name) != "" {
					found[name] = true
				}
			}
		}
	}
	return sortedKeys(found)
}
