package git

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// configEntry is a value of a configuration: the name is "section.key" or "section.subsection.key".
type configEntry struct{ name, value string }

// config is the values of configuration files, in their order; later values win.
type config []configEntry

// lookup returns the last value of a name.
func (c config) lookup(name string) (string, bool) {
	for _, e := range slices.Backward(c) {
		if e.name == name {
			return e.value, true
		}
	}
	return "", false
}

// get returns the last value of a name, or "".
func (c config) get(name string) string {
	value, _ := c.lookup(name)
	return value
}

// isTrue reports whether a name has a value that means true.
func (c config) isTrue(name string) bool {
	value := strings.ToLower(c.get(name))
	n, err := strconv.Atoi(value)
	return slices.Contains([]string{"true", "yes", "on"}, value) || err == nil && n != 0
}

// all returns every value of a name.
func (c config) all(name string) []string {
	var list []string
	for _, e := range c {
		if e.name == name {
			list = append(list, e.value)
		}
	}
	return list
}

// normalizeKey returns a name as config stores it: only a subsection keeps its case.
func normalizeKey(name string) string {
	first, last := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.')
	if first < 0 {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:first]) + name[first:last] + strings.ToLower(name[last:])
}

// readConfig reads configuration files. Missing files have no values.
func readConfig(p *kernel.Proc, files ...string) config {
	var conf config
	for _, file := range files {
		b, err := p.ReadFile(file)
		if err != nil {
			continue
		}
		section := ""
		for _, line := range joinConfigLines(string(b)) {
			p.Tick(1)
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			if line[0] == '[' {
				head, rest, _ := strings.Cut(line[1:], "]")
				section = parseSection(head)
				if line = strings.TrimSpace(rest); line == "" {
					continue
				}
			}
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				value = "true"
			}
			p.Alloc(int64(len(line)) + 96)
			conf = append(conf, configEntry{section + "." + strings.ToLower(strings.TrimSpace(key)), parseConfigValue(value)})
		}
		p.Free(int64(cap(b)))
	}
	return conf
}

// joinConfigLines splits a file into lines, and joins those that end with a backslash.
func joinConfigLines(text string) []string {
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", ""), "\n")
}

// parseSection returns the name of a section from the text between its brackets.
func parseSection(head string) string {
	name, sub, _ := strings.Cut(strings.TrimSpace(head), " ")
	section := strings.ToLower(name)
	if sub = strings.TrimSpace(sub); len(sub) >= 2 && sub[0] == '"' {
		section += "." + strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(sub[1:len(sub)-1])
	}
	return section
}

// parseConfigValue resolves quotes, escapes and comments of a value.
func parseConfigValue(text string) string {
	var b strings.Builder
	text = strings.TrimSpace(text)
	quoted, kept := false, 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			default:
				c = text[i]
			}
		case !quoted && (c == '#' || c == ';'):
			return strings.TrimRight(b.String()[:max(kept, len(strings.TrimRight(b.String(), " \t")))], "")
		}
		b.WriteByte(c)
	}
	return b.String()
}

// formatConfigValue quotes a value where a file requires it.
func formatConfigValue(value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value)
	if strings.ContainsAny(value, "#;") || value != strings.TrimSpace(value) {
		return `"` + escaped + `"`
	}
	return escaped
}

// configEdit is a change of a configuration file.
type configEdit struct {
	name, value string
	add         bool // add a value instead of replacing the last one
	unset       bool // remove all values
	section     bool // remove the section that name is
}

// editConfig changes a configuration file, and reports whether it had what was to be removed or replaced.
func editConfig(p *kernel.Proc, file string, e configEdit) (bool, error) {
	b, err := p.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	cut := strings.LastIndexByte(e.name, '.')
	section, key := e.name, ""
	if !e.section {
		section, key = e.name[:cut], e.name[cut+1:]
	}
	line := "\t" + key + " = " + formatConfigValue(e.value) + "\n"
	var lines []string
	for l := range strings.Lines(string(b)) {
		if !strings.HasSuffix(l, "\n") {
			l += "\n"
		}
		lines = append(lines, l)
	}
	at, last, found, current := -1, -1, false, ""
	var kept []string
	for _, l := range lines {
		p.Tick(1)
		t := strings.TrimSpace(l)
		if strings.HasPrefix(t, "[") {
			current = parseSection(cutBefore(t[1:], "]"))
		}
		inside := strings.EqualFold(cutBefore(current, "."), cutBefore(section, ".")) && current[len(cutBefore(current, ".")):] == section[len(cutBefore(section, ".")):]
		matches := inside && !strings.HasPrefix(t, "[") && strings.EqualFold(strings.TrimSpace(cutBefore(t, "=")), key)
		if inside && e.section || matches && e.unset {
			found = true
			continue
		}
		kept = append(kept, l)
		if inside {
			at = len(kept)
		}
		if matches {
			found, last = true, len(kept)-1
		}
	}
	switch {
	case e.unset || e.section:
	case last >= 0 && !e.add:
		kept[last] = line
	case at >= 0:
		kept = slices.Insert(kept, at, line)
	default:
		head := section
		if name, sub, ok := strings.Cut(section, "."); ok {
			head = name + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(sub) + `"`
		}
		kept = append(kept, "["+head+"]\n", line)
	}
	if (e.unset || e.section) && !found {
		return false, nil
	}
	return found, p.WriteFile(file, []byte(strings.Join(kept, "")), 0o644)
}

// setConfig sets a value in a configuration file.
func setConfig(p *kernel.Proc, file, name, value string) error {
	_, err := editConfig(p, file, configEdit{name: name, value: value})
	return err
}

// configFile returns the file that the options of git config select.
func (c *call) configFile() string {
	switch {
	case c.has("--file", "-f"):
		return c.flags["--file"] + c.flags["-f"]
	case c.has("--global"):
		return c.p.Getenv("HOME") + "/.gitconfig"
	}
	return c.common + "/config"
}

// manageConfig prints and sets values of the configuration.
func (c *call) manageConfig() error {
	file := c.configFile()
	conf := c.conf
	if c.has("--global", "--local", "--file", "-f") {
		conf = readConfig(c.p, file)
	}
	out := c.p.Out()
	if c.has("--list", "-l") {
		for _, e := range conf {
			_, _ = fmt.Fprintf(out, "%s=%s\n", e.name, e.value) // Flush reports the error
		}
		return nil
	}
	if len(c.args) == 0 || !c.has("--remove-section", "--get-regexp") && !strings.Contains(strings.Trim(c.args[0], "."), ".") {
		return newError("key does not contain a section: %s", strings.Join(c.args, " "))
	}
	name := normalizeKey(c.args[0])
	switch {
	case c.has("--unset", "--unset-all", "--remove-section"):
		found, err := editConfig(c.p, file, configEdit{name: c.args[0], unset: !c.has("--remove-section"), section: c.has("--remove-section")})
		if err == nil && !found {
			if c.has("--remove-section") {
				return newFatal("no such section: %s", c.args[0])
			}
			err = &failure{5, ""}
		}
		return err
	case c.has("--get-regexp"):
		m, err := c.compilePattern(c.args[0], regex.Options{Syntax: regex.ERE, Dialect: regex.Grep})
		if err != nil {
			return err
		}
		for _, e := range conf {
			if m.matches([]byte(e.name)) {
				_, _ = fmt.Fprintf(out, "%s %s\n", e.name, e.value)
			}
		}
		return nil
	case len(c.args) == 1 || c.has("--get", "--get-all"):
		return c.printConfig(conf, name)
	}
	if strings.ContainsAny(c.args[0], "\n\x00") {
		return newError("invalid key (newline): %s", c.args[0])
	}
	_, err := editConfig(c.p, file, configEdit{name: c.args[0], value: c.args[1], add: c.has("--add")})
	return err
}

// printConfig prints the values of a name.
func (c *call) printConfig(conf config, name string) error {
	list := conf.all(name)
	if len(list) == 0 {
		if value, ok := c.flags["--default"]; ok {
			_, _ = fmt.Fprintln(c.p.Out(), value) // Flush reports the error, as of all writes
			return nil
		}
		return &failure{1, ""}
	}
	if !c.has("--get-all") {
		list = list[len(list)-1:]
	}
	for _, value := range list {
		if c.has("--bool", "--type") {
			value = fmt.Sprint(config{{name, value}}.isTrue(name))
		}
		_, _ = fmt.Fprintln(c.p.Out(), value)
	}
	return nil
}
