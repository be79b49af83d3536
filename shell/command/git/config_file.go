package git

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// The parts of a configuration file.
const (
	configHeader = iota
	configValue
	configComment
	configBlank
)

// configItem is a part of a configuration file: the head of a section, a value, a comment or an empty line.
type configItem struct {
	kind       int
	text       string // of the file
	section    string // the part belongs to
	key, value string
	bare       bool // the value is a name only
}

// scanConfig calls a function for each part of the text of a configuration file. The text of all parts is the text of the file.
func scanConfig(p *kernel.Proc, text, file string, visit func(configItem) error) error {
	section, known, at := "", false, 0
	for at < len(text) {
		p.Tick(1)
		start := at
		if at == 0 && strings.HasPrefix(text, "\ufeff") { // a mark of the encoding
			at = len("\ufeff")
		}
		for at < len(text) && strings.IndexByte(" \t\r", text[at]) >= 0 {
			at++
		}
		it := configItem{section: section, kind: configBlank}
		ok := true
		switch {
		case at == len(text) || text[at] == '\n':
			at = min(at+1, len(text))
		case text[at] == '#' || text[at] == ';':
			it.kind, at = configComment, endOfLine(text, at)
		case text[at] == '[':
			it.kind = configHeader
			if section, at, ok = scanSection(text, at+1); ok {
				it.section, known = section, true
				if end := endOfLine(text, at); strings.TrimSpace(text[at:end]) == "" {
					at = end
				}
			}
		default:
			it.kind = configValue
			at, ok = it.scanValue(text, at)
			ok = ok && known
		}
		if !ok {
			return newFatal("bad config line %d in file %s", 1+strings.Count(text[:start], "\n"), file)
		}
		it.text = text[start:at]
		if err := visit(it); err != nil {
			return err
		}
	}
	return nil
}

// endOfLine returns the offset after the line that an offset is in.
func endOfLine(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// scanSection parses the head of a section after its [, and returns the section's name and the offset after it.
func scanSection(text string, at int) (string, int, bool) {
	start := at
	for at < len(text) && (isConfigWord(text[at:at+1]) || text[at] == '.') {
		at++
	}
	name := strings.ToLower(text[start:at])
	quoted := at
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	if at > quoted && at < len(text) && text[at] == '"' {
		var b strings.Builder
		for at++; at < len(text) && text[at] != '"' && text[at] != '\n'; at++ {
			if text[at] == '\\' && at+1 < len(text) {
				at++
			}
			b.WriteByte(text[at])
		}
		at++
		name += "." + b.String()
	} else {
		at = quoted
	}
	if at >= len(text) || text[at] != ']' {
		return "", at, false
	}
	return name, at + 1, true
}

// scanValue parses a name and its value, and returns the offset of the next line.
func (it *configItem) scanValue(text string, at int) (int, bool) {
	start := at
	for at < len(text) && isConfigWord(text[at:at+1]) {
		at++
	}
	if it.key = text[start:at]; it.key == "" || !isLetter(it.key[0]) {
		return at, false
	}
	for at < len(text) && strings.IndexByte(" \t\r", text[at]) >= 0 {
		at++
	}
	if at == len(text) || text[at] == '\n' {
		it.value, it.bare = "true", true
		return min(at+1, len(text)), true
	}
	if text[at] != '=' {
		return at, false
	}
	var b strings.Builder
	quoted, spaces := false, 0
	for at++; at < len(text); at++ {
		c := text[at]
		if c == '\r' && at+1 < len(text) && text[at+1] == '\n' {
			continue
		}
		switch {
		case c == '\n':
			it.value = b.String()
			return at + 1, !quoted
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				spaces++
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			it.value = b.String()
			return endOfLine(text, at), true
		}
		for ; spaces > 0; spaces-- {
			b.WriteByte(' ')
		}
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			if at++; at < len(text) && text[at] == '\r' {
				at++
			}
			if at >= len(text) {
				continue
			}
			n := strings.IndexByte("tbn\\\"\n", text[at])
			if n < 0 {
				return at, false
			}
			if text[at] != '\n' {
				b.WriteByte("\t\b\n\\\""[n])
			}
		default:
			b.WriteByte(c)
		}
	}
	it.value = b.String()
	return at, !quoted
}

// formatConfigValue quotes a value where a file requires it.
func formatConfigValue(value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value)
	if strings.ContainsAny(value, "#;\r") || value != strings.Trim(value, " ") {
		return `"` + escaped + `"`
	}
	return escaped
}

// formatSection returns the head of a section.
func formatSection(section string) string {
	if name, sub, ok := strings.Cut(section, "."); ok {
		section = name + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(sub) + `"`
	}
	return "[" + section + "]\n"
}

// configEdit is a change of a configuration file.
type configEdit struct {
	name, value string
	add         bool              // add a value instead of replacing one
	all         bool              // replace or remove all values, not one
	unset       bool              // remove values
	section     bool              // remove the section that name is
	rename      string            // the section's new name
	matches     func(string) bool // selects values; nil selects all
}

// editConfig changes a configuration file, and reports whether it had what was to be removed or replaced.
func editConfig(p *kernel.Proc, file string, e configEdit) (bool, error) {
	b, err := p.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	mark := p.Charged()
	defer func() { p.Free(p.Charged() - mark + int64(cap(b))) }()
	var items []configItem
	if err := scanConfig(p, string(b), file, func(it configItem) error {
		p.Alloc(int64(len(it.text)) + 256)
		items = append(items, it)
		return nil
	}); err != nil {
		return false, err
	}
	var text string
	var found bool
	if e.section || e.rename != "" {
		text, found = e.editSection(p, items)
	} else if text, found, err = e.editValue(p, items); err != nil {
		return found, err
	}
	if (e.unset || e.section || e.rename != "") && !found {
		return false, nil
	}
	return found, p.WriteFile(file, []byte(text), 0o644)
}

// editSection returns the text of a file whose sections of a name are removed or renamed, and whether there was one.
func (e configEdit) editSection(p *kernel.Proc, items []configItem) (string, bool) {
	var b strings.Builder
	found := false
	section := normalizeKey(e.name + ".")
	for _, it := range items {
		p.Tick(1)
		inside := it.section != "" && it.section+"." == section
		switch {
		case inside && it.kind == configHeader && e.rename != "":
			found = true
			b.WriteString(formatSection(e.rename))
		case inside && e.rename == "":
			found = true
		default:
			b.WriteString(it.text)
		}
	}
	return b.String(), found
}

// editValue returns the text of a file with a value set or removed, and whether there was one.
func (e configEdit) editValue(p *kernel.Proc, items []configItem) (string, bool, error) {
	cut := strings.LastIndexByte(e.name, '.')
	section, key := e.name[:cut], e.name[cut+1:]
	name := normalizeKey(e.name)
	at, last, n := -1, -1, 0
	remove := make([]bool, len(items))
	for i, it := range items {
		p.Tick(1)
		if it.kind > configValue || it.section != name[:cut] {
			continue
		}
		at = i
		if it.kind == configValue && strings.EqualFold(it.key, key) && !e.add && (e.matches == nil || e.matches(it.value)) {
			remove[i], last = true, i
			n++
		}
	}
	if n > 1 && !e.all {
		text := "warning: " + name + " has multiple values"
		if !e.unset {
			text += "\nerror: cannot overwrite multiple values with a single value\n       Use a regexp, --add or --replace-all to change " + e.name + "."
		}
		return "", true, &failure{5, text}
	}
	line := "\t" + key + " = " + formatConfigValue(e.value) + "\n"
	if e.unset {
		removeEmptySections(items, remove, name[:cut])
	}
	var b strings.Builder
	write := func(text string) {
		if s := b.String(); s != "" && s[len(s)-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	for i, it := range items {
		p.Tick(1)
		if !remove[i] {
			b.WriteString(it.text)
		}
		if !e.unset && (i == last || last < 0 && i == at) {
			write(line)
		}
	}
	if at < 0 && !e.unset {
		write(formatSection(section) + line)
	}
	return b.String(), n > 0, nil
}

// removeEmptySections marks the heads and empty lines of sections of a name that lose their only values.
func removeEmptySections(items []configItem, remove []bool, section string) {
	for start := 0; start < len(items); {
		end, empty, lost := start+1, true, false
		for ; end < len(items) && items[end].kind != configHeader; end++ {
			empty = empty && (remove[end] || items[end].kind == configBlank)
			lost = lost || remove[end]
		}
		if empty && lost && items[start].kind == configHeader && items[start].section == section {
			for i := start; i < end; i++ {
				remove[i] = true
			}
		}
		start = end
	}
}

// setConfig sets a value in a configuration file, in the place of all values of the name.
func setConfig(p *kernel.Proc, file, name, value string) error {
	_, err := editConfig(p, file, configEdit{name: name, value: value, all: true})
	return err
}

// parseConfigInt parses a number that may end with k, m or g.
func parseConfigInt(value string) (int64, bool) {
	digits, factor := value, int64(1)
	if value != "" {
		if n := strings.IndexByte("kmg", value[len(value)-1]|0x20); n >= 0 {
			digits, factor = value[:len(value)-1], int64(1)<<(10*(n+1))
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 0, 64)
	return n * factor, err == nil && (n*factor)/factor == n
}
