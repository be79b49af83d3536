package git

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// configSource is the file or command line that a value of the configuration comes from, and how far it reaches.
type configSource struct{ file, scope string }

// configEntry is a value of a configuration: the name is "section.key" or "section.subsection.key".
type configEntry struct {
	name, value string
	bare        bool          // a name without = and value, which means true
	source      *configSource // nil if the program set the value
}

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

// isFalse reports whether a name has a value that does not mean true.
func (c config) isFalse(name string) bool {
	_, ok := c.lookup(name)
	return ok && !c.isTrue(name)
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

// maxIncludes is how deeply files of the configuration include each other.
const maxIncludes = 10

// configReader reads files of the configuration.
type configReader struct {
	p        *kernel.Proc
	dir      string // of the repository, for conditions of includes; "" if there is none
	includes bool   // read the files that include.path names
	conf     config
}

// readFile adds the values of a file, and of the files that it includes. A missing file has no values.
func (r *configReader) readFile(file, scope string, depth int) error {
	b, err := r.p.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err != nil && depth == 0 && scope != "command" {
		return nil
	}
	if err != nil {
		return newFatal("unable to access '%s'", file)
	}
	defer r.p.Free(int64(cap(b)))
	source := &configSource{file, scope}
	return scanConfig(r.p, string(b), file, func(it configItem) error {
		if it.kind != configValue {
			return nil
		}
		return r.addEntry(configEntry{it.section + "." + strings.ToLower(it.key), it.value, it.bare, source}, depth)
	})
}

// addEntry adds a value, and the values of the file that it includes.
func (r *configReader) addEntry(e configEntry, depth int) error {
	r.p.Tick(1)
	r.p.Alloc(int64(len(e.name)+len(e.value)) + 112)
	r.conf = append(r.conf, e)
	if !r.includes || e.bare || !strings.HasSuffix(e.name, ".path") {
		return nil
	}
	condition, conditional := strings.CutPrefix(strings.TrimSuffix(e.name, ".path"), "includeif.")
	if e.name != "include.path" && (!conditional || !r.meetsCondition(condition, e.source.file)) {
		return nil
	}
	file := expandHome(r.p, e.value)
	if !strings.HasPrefix(file, "/") {
		if e.source.file == "" {
			return newFatal("relative config includes must come from files")
		}
		file = e.source.file[:strings.LastIndexByte(e.source.file, '/')+1] + file
	}
	if depth >= maxIncludes {
		return newFatal("exceeded maximum include depth (%d) while including\n\t%s\nfrom\n\t%s\nThis might be due to circular includes.", maxIncludes, file, orDefault(e.source.file, "command line"))
	}
	return r.readFile(file, e.source.scope, depth+1)
}

// expandHome returns a path with the user's home in the place of ~.
func expandHome(p *kernel.Proc, file string) string {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		return strings.TrimSuffix(p.Getenv("HOME"), "/") + "/" + rest
	}
	return file
}

// meetsCondition reports whether the condition of an include holds for the repository.
func (r *configReader) meetsCondition(condition, file string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if r.dir == "" || pattern == "" {
		return false
	}
	text := ""
	switch kind {
	case "gitdir", "gitdir/i":
		pattern = expandHome(r.p, pattern)
		if rest, ok := strings.CutPrefix(pattern, "./"); ok {
			pattern = path.Join(path.Dir(file), ".") + "/" + rest
		} else if !strings.HasPrefix(pattern, "/") {
			pattern = "**/" + pattern
		}
		text = r.dir
		if real, err := r.p.Resolve(r.dir); err == nil {
			text = real
		}
		if kind == "gitdir/i" {
			text, pattern = strings.ToLower(text), strings.ToLower(pattern)
		}
	case "onbranch":
		b, err := r.p.ReadFile(r.dir + "/HEAD")
		branch, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "ref: refs/heads/")
		r.p.Free(int64(cap(b)))
		if err != nil || !ok {
			return false
		}
		text = branch
	default:
		return false
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return matchParts(r.p, strings.Split(pattern, "/"), strings.Split(text, "/"))
}

// globalConfigFiles returns the configuration files of the user.
func globalConfigFiles(p *kernel.Proc) []string {
	for _, e := range p.Env {
		if file, ok := strings.CutPrefix(e, "GIT_CONFIG_GLOBAL="); ok {
			return []string{file}
		}
	}
	home := p.Getenv("HOME")
	return []string{orDefault(p.Getenv("XDG_CONFIG_HOME"), home+"/.config") + "/git/config", home + "/.gitconfig"}
}

// readConfig returns the configuration of the user, of the repository and of the command line. The repository is given by
// its own directory and the one of its main working tree, which are "" outside of repositories.
func readConfig(p *kernel.Proc, dir, common string) (config, error) {
	r := &configReader{p: p, dir: dir, includes: true}
	for _, file := range globalConfigFiles(p) {
		if err := r.readFile(file, "global", 0); err != nil {
			return r.conf, err
		}
	}
	if common != "" {
		if err := r.readFile(common+"/config", "local", 0); err != nil {
			return r.conf, err
		}
		if r.conf.isTrue("extensions.worktreeconfig") {
			if err := r.readFile(dir+"/config.worktree", "worktree", 0); err != nil {
				return r.conf, err
			}
		}
	}
	if err := r.readVariables(); err != nil {
		return r.conf, err
	}
	return r.conf, r.readParameters()
}

// readVariables adds the values of $GIT_CONFIG_COUNT and the variables that it counts.
func (r *configReader) readVariables() error {
	count := r.p.Getenv("GIT_CONFIG_COUNT")
	if count == "" {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return newFatal("bogus count in GIT_CONFIG_COUNT: %s", count)
	}
	set := make(map[string]string)
	for _, e := range r.p.Env {
		r.p.Tick(1)
		if strings.HasPrefix(e, "GIT_CONFIG_") {
			name, value, _ := strings.Cut(e, "=")
			set[name] = value
		}
	}
	source := &configSource{scope: "command"}
	for i := range n {
		key, ok := set["GIT_CONFIG_KEY_"+strconv.Itoa(i)]
		value, given := set["GIT_CONFIG_VALUE_"+strconv.Itoa(i)]
		if !ok || !given {
			word := map[bool]string{false: "key GIT_CONFIG_KEY_", true: "value GIT_CONFIG_VALUE_"}[ok]
			return &failure{128, "error: missing config " + word + strconv.Itoa(i) + "\nfatal: unable to parse command-line config"}
		}
		if checkConfigKey(key) != nil {
			return &failure{128, "error: bogus config parameter: " + key + "\nfatal: unable to parse command-line config"}
		}
		if err := r.addEntry(configEntry{name: normalizeKey(key), value: value, source: source}, 0); err != nil {
			return err
		}
	}
	return nil
}

// exportConfig adds NAME=VALUE, or a name alone, to the variable by which git passes values of the command line to the
// programs that it starts.
func exportConfig(p *kernel.Proc, text string) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	name, value, given := strings.Cut(text, "=")
	text = quote(name)
	if given {
		text += "=" + quote(value)
	}
	setEnv(p, "GIT_CONFIG_PARAMETERS", strings.TrimPrefix(p.Getenv("GIT_CONFIG_PARAMETERS")+" "+text, " "))
}

// readParameters adds the values that exportConfig has stored.
func (r *configReader) readParameters() error {
	words, err := splitAlias(r.p.Getenv("GIT_CONFIG_PARAMETERS"))
	source := &configSource{scope: "command"}
	for _, word := range words {
		name, value, given := strings.Cut(word, "=")
		if !given {
			value = "true"
		}
		if checkConfigKey(name) != nil {
			return newFatal("bogus format in GIT_CONFIG_PARAMETERS")
		}
		if err := r.addEntry(configEntry{normalizeKey(name), value, !given, source}, 0); err != nil {
			return err
		}
	}
	if err != nil {
		return newFatal("bogus format in GIT_CONFIG_PARAMETERS")
	}
	return nil
}

// checkConfigKey returns an error unless a name is one of a value of the configuration.
func checkConfigKey(name string) error {
	first, last := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.')
	switch {
	case last <= 0:
		return &failure{2, "error: key does not contain a section: " + name}
	case last == len(name)-1:
		return &failure{2, "error: key does not contain variable name: " + name}
	case strings.ContainsAny(name, "\n\x00"):
		return &failure{1, "error: invalid key (newline): " + name}
	case !isConfigWord(name[:first]) || !isConfigWord(name[last+1:]) || !isLetter(name[last+1]):
		return &failure{1, "error: invalid key: " + name}
	}
	return nil
}

// isConfigWord reports whether a word can be the name of a section or a value.
func isConfigWord(s string) bool {
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isLetter reports whether a byte is a letter of ASCII.
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
