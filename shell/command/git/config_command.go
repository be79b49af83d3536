package git

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// configFile returns the file that the options of git config select, and its scope.
func (c *call) configFile() (file, scope string, err error) {
	switch {
	case c.has("--file", "-f"):
		return orDefault(c.flags["--file"], c.flags["-f"]), "command", nil
	case c.has("--global"):
		files := globalConfigFiles(c.p)
		if len(files) > 1 {
			if _, err := c.p.Stat(files[1]); err != nil {
				if _, err := c.p.Stat(files[0]); err == nil {
					return files[0], "global", nil
				}
			}
		}
		return files[len(files)-1], "global", nil
	case c.common == "" && c.has("--local"):
		return "", "", newFatal("--local can only be used inside a git repository")
	case c.common == "" && c.has("--worktree"):
		return "", "", newFatal("--worktree can only be used inside a git repository")
	case c.common == "":
		return "", "", newFatal("not in a git directory")
	case c.has("--worktree") && c.conf.isTrue("extensions.worktreeconfig"):
		return c.dir + "/config.worktree", "worktree", nil
	}
	return c.common + "/config", "local", nil
}

// manageConfig prints and sets values of the configuration.
func (c *call) manageConfig() error {
	conf := c.conf
	file, scope, noFile := c.configFile()
	if c.has("--global", "--local", "--worktree", "--file", "-f") {
		if noFile != nil {
			return noFile
		}
		r := &configReader{p: c.p, dir: c.dir, includes: c.has("--includes")}
		if err := r.readFile(file, scope, 0); err != nil {
			return err
		}
		conf = r.conf
		if _, err := c.p.Stat(file); err != nil && c.has("--list", "-l") && scope != "local" {
			return newFatal("unable to read config file '%s': %s", file, program.Reason(err))
		}
	}
	if _, _, err := c.convertConfig(configEntry{value: "1"}); err != nil {
		return err
	}
	switch n := len(c.args); {
	case c.has("--list", "-l"):
		for _, e := range conf {
			c.p.Tick(1)
			if err := c.printConfigEntry(e, true); err != nil {
				return err
			}
		}
		return nil
	case c.has("-e", "--edit"):
		return c.editConfigFile(file, noFile)
	case n == 0:
		return &failure{129, "usage: git config [<options>]"}
	case c.has("--get-regexp", "--get-all", "--get"), n == 1 && !c.has("--unset", "--unset-all", "--remove-section", "--rename-section", "--add", "--replace-all"):
		return c.printConfig(conf)
	case noFile != nil:
		return noFile
	case c.has("--remove-section", "--rename-section"):
		return c.changeSection(file)
	}
	return c.changeConfig(file)
}

// editConfigFile starts the user's editor for a configuration file.
func (c *call) editConfigFile(file string, noFile error) error {
	if noFile != nil {
		return noFile
	}
	editor := c.findEditor()
	if editor == "" {
		return newError("Terminal is dumb, but EDITOR unset")
	}
	if editor == ":" {
		return nil
	}
	code, err := c.runShell(editor, c.p.Path(file))
	if err == nil && code != 0 {
		err = newError("There was a problem with the editor '%s'.", editor)
	}
	return err
}

// changeSection removes or renames a section.
func (c *call) changeSection(file string) error {
	e := configEdit{name: c.args[0], section: true}
	if c.has("--rename-section") {
		if len(c.args) != 2 {
			return &failure{129, "error: wrong number of arguments, should be 2"}
		}
		e.section, e.rename = false, c.args[1]
		if name := cutBefore(e.rename, "."); name == "" || !isConfigWord(name) || strings.Contains(e.rename, "\n") {
			return &failure{1, "error: invalid section name: " + e.rename}
		}
	}
	found, err := editConfig(c.p, file, e)
	if err == nil && !found {
		err = newFatal("no such section: %s", c.args[0])
	}
	return err
}

// changeConfig sets, adds or removes values of a name.
func (c *call) changeConfig(file string) error {
	if err := checkConfigKey(c.args[0]); err != nil {
		return err
	}
	e := configEdit{name: c.args[0], add: c.has("--add"), all: c.has("--replace-all", "--unset-all"), unset: c.has("--unset", "--unset-all")}
	rest := c.args[1:]
	if !e.unset {
		if len(rest) == 0 {
			return &failure{129, "error: wrong number of arguments, should be 2"}
		}
		var err error
		if e.value, _, err = c.convertConfig(configEntry{name: e.name, value: rest[0]}); err != nil {
			return err
		}
		if slices.Contains([]string{"path", "expiry-date"}, c.configType()) {
			e.value = rest[0]
		}
		rest = rest[1:]
	}
	if len(rest) > 1 {
		return &failure{129, "error: wrong number of arguments, should be from 1 to 3"}
	}
	var err error
	if e.matches, err = c.matchConfigValues(rest); err != nil {
		return err
	}
	found, err := editConfig(c.p, file, e)
	if err == nil && e.unset && !found {
		err = &failure{5, ""}
	}
	return err
}

// matchConfigValues returns a function that reports whether a value matches the operand for values; nil accepts all.
func (c *call) matchConfigValues(operands []string) (func(string) bool, error) {
	if len(operands) == 0 {
		return nil, nil
	}
	if c.has("--fixed-value") {
		return func(value string) bool { return value == operands[0] }, nil
	}
	text, negated := strings.CutPrefix(operands[0], "!")
	m, err := c.compilePattern(text, regex.Options{Syntax: regex.ERE, Dialect: regex.Grep})
	if err != nil {
		return nil, &failure{6, "error: invalid pattern: " + operands[0]}
	}
	return func(value string) bool { return m.matches([]byte(value)) != negated }, nil
}

// printConfig prints the values of a name, or of the names that match a pattern.
func (c *call) printConfig(conf config) error {
	name := normalizeKey(c.args[0])
	selects := func(e configEntry) bool { return e.name == name }
	if c.has("--get-regexp") {
		m, err := c.compilePattern(normalizeKey(c.args[0]), regex.Options{Syntax: regex.ERE, Dialect: regex.Grep})
		if err != nil {
			return &failure{6, "error: invalid key pattern: " + c.args[0]}
		}
		selects = func(e configEntry) bool { return m.matches([]byte(e.name)) }
	} else if err := checkConfigKey(c.args[0]); err != nil {
		return &failure{1, err.Error()}
	}
	matches, err := c.matchConfigValues(c.args[1:])
	if err != nil {
		return err
	}
	var list []configEntry
	for _, e := range conf {
		c.p.Tick(1)
		if selects(e) && (matches == nil || matches(e.value)) {
			list = append(list, e)
		}
	}
	if value, ok := c.flags["--default"]; ok && len(list) == 0 {
		list = append(list, configEntry{name: name, value: value, source: &configSource{scope: "command"}})
	}
	if len(list) == 0 {
		return &failure{1, ""}
	}
	if !c.has("--get-all", "--get-regexp") {
		list = list[len(list)-1:]
	}
	for _, e := range list {
		if err := c.printConfigEntry(e, c.has("--get-regexp")); err != nil {
			return err
		}
	}
	return nil
}

// printConfigEntry prints a value, with its name if wanted and with what the options ask for.
func (c *call) printConfigEntry(e configEntry, named bool) error {
	separator, between, end := "\t", " ", "\n"
	if c.has("--list", "-l") {
		between = "="
	}
	if c.has("-z", "--null") {
		separator, between, end = "\x00", "\n", "\x00"
	}
	value, bare, err := c.convertConfig(e)
	if err != nil {
		return err
	}
	var b strings.Builder
	if c.has("--show-scope") {
		b.WriteString(e.source.scope + separator)
	}
	if c.has("--show-origin") {
		b.WriteString(c.describeOrigin(e.source) + separator)
	}
	if named {
		b.WriteString(e.name)
		if bare || c.has("--name-only") {
			value, between = "", ""
		}
		b.WriteString(between)
	} else if bare {
		value = ""
	}
	_, _ = c.p.Out().WriteString(b.String() + value + end) // Flush reports the error
	return nil
}

// describeOrigin returns where a value comes from, as git config --show-origin prints it.
func (c *call) describeOrigin(source *configSource) string {
	if source.file == "" {
		return "command line:"
	}
	file := source.file
	if rest, ok := strings.CutPrefix(file, c.root+"/"); ok && c.root != "" && c.common == c.root+"/.git" && strings.HasPrefix(rest, ".git/") {
		file = rest
	}
	return "file:" + c.quotePath(file)
}

// configType returns the type that values have.
func (c *call) configType() string {
	kind := ""
	for _, option := range c.order {
		switch option {
		case "--bool", "--int", "--bool-or-int", "--path":
			kind = option[2:]
		case "--type":
			kind = c.flags["--type"]
		case "--no-type":
			kind = ""
		}
	}
	return kind
}

// convertConfig returns a value in the form of the wanted type, and whether nothing but the name is to be printed.
func (c *call) convertConfig(e configEntry) (string, bool, error) {
	kind, value := c.configType(), e.value
	number, isNumber := parseConfigInt(value)
	isSmall := number >= math.MinInt32 && number <= math.MaxInt32
	word, isWord := map[string]string{"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false", "": "false"}[strings.ToLower(value)]
	switch kind {
	case "":
		return value, e.bare, nil
	case "int":
		if !isNumber {
			return "", false, c.badNumber(e)
		}
		return strconv.FormatInt(number, 10), false, nil
	case "bool":
		if isNumber && isSmall {
			return strconv.FormatBool(number != 0), false, nil
		}
		if !isWord {
			return "", false, newFatal("bad boolean config value '%s' for '%s'", value, e.name)
		}
		return word, false, nil
	case "bool-or-int":
		if isNumber && isSmall {
			return strconv.FormatInt(number, 10), false, nil
		}
		if !isWord {
			return "", false, c.badNumber(e)
		}
		return word, false, nil
	case "path":
		return expandHome(c.p, value), false, nil
	}
	return "", false, newFatal("unrecognized --type argument, %s", kind)
}

// badNumber returns the error for a value that is not a number.
func (c *call) badNumber(e configEntry) error {
	place := ""
	if e.source != nil && e.source.file != "" {
		place = " in file " + strings.TrimPrefix(c.describeOrigin(e.source), "file:")
	}
	return newFatal("bad numeric config value '%s' for '%s'%s: invalid unit", e.value, e.name, place)
}

// runAlias runs a command of the shell that an alias stands for, in the root of the working tree.
func (c *call) runAlias(command string, args []string) error {
	prefix := ""
	if c.root != "" {
		if dir, err := c.relativePath("."); err == nil && dir != "" {
			prefix = dir + "/"
		}
	}
	setEnv(c.p, "GIT_PREFIX", prefix)
	code, err := c.runShell(command, args...)
	if err == nil && code != 0 {
		err = &failure{code, ""}
	}
	return err
}
