package skill

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/unicode/norm"
)

// fields are the allowed fields of a head.
var fields = []string{"name", "description", "license", "compatibility", "metadata", "allowed-tools"}

// frontMatter is the decoded head of a SKILL.md, with the line of each field.
type frontMatter struct {
	skill Skill
	lines map[string]int // line of each field; 0: the field is missing
}

// readFields decodes the fields of a head and reports all faults.
func readFields(n *yaml.Node, f *problemList) frontMatter {
	h := frontMatter{lines: make(map[string]int)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := k.Value
		switch {
		case k.Kind != yaml.ScalarNode:
			f.add(k.Line, "", "a field's name is a word")
			continue
		case h.lines[name] != 0:
			f.add(k.Line, name, "is set already in line %d", h.lines[name])
			continue
		case !slices.Contains(fields, name):
			f.add(k.Line, name, "unknown field: known are %s; put others into metadata", strings.Join(fields, ", "))
			continue
		}
		h.lines[name] = k.Line
		switch name {
		case "metadata":
			h.skill.Metadata = readMetadata(v, f)
		case "allowed-tools":
			h.skill.AllowedTools = readAllowedTools(v, f)
		default:
			h.setText(name, v, f)
		}
	}
	return h
}

// reported is the line of a field whose faults are reported already.
const reported = -1

// setText sets a text field.
func (h *frontMatter) setText(name string, v *yaml.Node, f *problemList) {
	v = resolveAlias(v)
	if v.Kind != yaml.ScalarNode {
		f.add(v.Line, name, "it must be a text")
		f.list[len(f.list)-1].Fatal = name == "description"
		h.lines[name] = reported
		return
	}
	text := strings.TrimSpace(v.Value)
	switch name {
	case "name":
		h.skill.Name = norm.NFKC.String(text)
	case "description":
		h.skill.Description = text
	case "license":
		h.skill.License = text
	case "compatibility":
		h.skill.Compatibility = text
	}
}

// resolveAlias returns the node that an alias refers to. The loader limits the size.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func readMetadata(v *yaml.Node, f *problemList) map[string]string {
	v = resolveAlias(v)
	if v.Kind == yaml.ScalarNode && v.Value == "" {
		return nil
	}
	if v.Kind != yaml.MappingNode {
		f.add(v.Line, "metadata", "it must be a mapping of texts")
		return nil
	}
	m := make(map[string]string)
	for i := 0; i+1 < len(v.Content); i += 2 {
		k, e := v.Content[i], resolveAlias(v.Content[i+1])
		_, twice := m[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || e.Kind != yaml.ScalarNode:
			f.add(k.Line, "metadata."+k.Value, "it must be a text")
			continue
		case twice:
			f.add(k.Line, "metadata."+k.Value, "it is there already")
		}
		m[k.Value] = e.Value
	}
	return m
}

// readAllowedTools decodes a text of tools separated by spaces; a list is reported
// and accepted.
func readAllowedTools(v *yaml.Node, f *problemList) []string {
	v = resolveAlias(v)
	switch v.Kind {
	case yaml.ScalarNode:
		return splitWords(v.Value)
	case yaml.SequenceNode:
		f.add(v.Line, "allowed-tools", "it must be one text with spaces between the tools, not a list")
		var list []string
		for _, e := range v.Content {
			if e = resolveAlias(e); e.Kind != yaml.ScalarNode {
				f.add(e.Line, "allowed-tools", "it must be a text")
				continue
			}
			list = append(list, splitWords(e.Value)...)
		}
		return list
	}
	f.add(v.Line, "allowed-tools", "it must be one text with spaces between the tools")
	return nil
}

// splitWords splits a text at spaces outside parentheses: "Bash(git add:*) Read".
func splitWords(s string) []string {
	depth := 0
	list := strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (unicode.IsSpace(r) || r == ',')
	})
	return list
}

// checkFields reports faults in the fields' values. dir is the directory's name.
func (h *frontMatter) checkFields(dir string, f *problemList) {
	s := &h.skill
	switch h.lines["name"] {
	case reported:
	case 0:
		f.add(1, "name", "it is missing")
	default:
		for _, why := range nameFaults(s.Name) {
			f.add(h.lines["name"], "name", "%s", why)
		}
		if s.Name != "" && norm.NFKC.String(dir) != s.Name {
			f.add(h.lines["name"], "name", "it is %q, and the directory %q: they must be the same", s.Name, dir)
		}
	}
	switch n := utf8.RuneCountInString(s.Description); {
	case h.lines["description"] == 0:
		f.addFatal(1, "description", "it is missing: it says what the skill does and when to use it")
	case h.lines["description"] == reported:
	case n == 0:
		f.addFatal(h.lines["description"], "description", "it is empty: it says what the skill does and when to use it")
	case n > maxDescription:
		f.add(h.lines["description"], "description", "it has %d characters: at most %d are allowed", n, maxDescription)
	}
	if line := h.lines["compatibility"]; line > 0 {
		switch n := utf8.RuneCountInString(s.Compatibility); {
		case n == 0:
			f.add(line, "compatibility", "it is empty: leave it out, or say what the skill needs")
		case n > maxCompatibility:
			f.add(line, "compatibility", "it has %d characters: at most %d are allowed", n, maxCompatibility)
		}
	}
}

// nameFaults returns the faults of a name, which is in NFKC.
func nameFaults(name string) []string {
	if name == "" {
		return []string{"it is empty"}
	}
	var why []string
	if n := utf8.RuneCountInString(name); n > maxName {
		why = append(why, "it has more than 64 characters")
	}
	if strings.ToLower(name) != name {
		why = append(why, "it must be lower case")
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		why = append(why, "it must not begin or end with a hyphen")
	}
	if strings.Contains(name, "--") {
		why = append(why, "it must not have two hyphens in a row")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		why = append(why, "it may have letters, digits and hyphens only")
	}
	return why
}
