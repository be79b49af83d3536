package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// listFiles lists files of the index or the working tree.
func (c *call) listFiles() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	operands := append(slices.Clone(c.args), c.paths...)
	if len(operands) == 0 {
		operands = []string{"."}
	}
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	names := append(sortedKeys(x), sortedKeys(c.conflicts)...)
	slices.Sort(names)
	if c.has("--deduplicate") {
		names = slices.Compact(names)
	}
	switch {
	case c.has("-o", "--others"):
		names, err = c.listWork(x, listOptions{all: !c.has("--exclude-standard"), collapse: c.has("--directory"), ignored: c.has("-i", "--ignored")})
		names = slices.DeleteFunc(names, func(name string) bool {
			_, known := x[name]
			_, conflicting := c.conflicts[name]
			return known || conflicting
		})
	case c.has("-m", "--modified", "-d", "--deleted"):
		names, err = c.listModified(x)
	case c.has("-u", "--unmerged"):
		c.flags["-s"], names = "", sortedKeys(c.conflicts)
	}
	if err != nil {
		return err
	}
	found := make([]bool, len(paths))
	for _, name := range names {
		if c.markMatches(paths, found, strings.TrimSuffix(name, "/")) {
			c.printFile(x, name)
		}
	}
	for n, ok := range found {
		if !ok && c.has("--error-unmatch") {
			return &failure{1, "error: pathspec '" + operands[n] + "' did not match any file(s) known to git\nDid you forget to 'git add'?"}
		}
	}
	return nil
}

// printFile prints a line, or with -s the entries of the index, for a file.
func (c *call) printFile(x index, name string) {
	out := c.p.Out()
	shown := c.displayPath(name)
	if c.has("--full-name") {
		shown = name
	}
	if !c.has("-z") {
		shown = c.quotePath(shown)
	}
	if c.has("-t", "-v") {
		_, _ = fmt.Fprint(out, c.fileTag(x, name)+" ") // Flush reports the error, as of all writes
	}
	if c.has("--eol") && !c.has("-s", "--stage") {
		_, _ = fmt.Fprint(out, c.lineEndsOfFile(x, name), shown, c.lineEnd())
		return
	}
	if !c.has("-s", "--stage") {
		_, _ = fmt.Fprint(out, shown+c.lineEnd())
		return
	}
	if e, ok := x[name]; ok {
		_, _ = fmt.Fprintf(out, "%06o %s 0\t%s%s", e.mode, e.id, shown, c.lineEnd())
	}
	for n, e := range c.conflicts[name] {
		if e.mode != 0 {
			_, _ = fmt.Fprintf(out, "%06o %s %d\t%s%s", e.mode, e.id, n+1, shown, c.lineEnd())
		}
	}
}

// fileTag returns the letter of git ls-files -t for a file.
func (c *call) fileTag(x index, name string) string {
	if _, ok := c.conflicts[name]; ok {
		return "M"
	}
	switch _, ok := x[name]; {
	case !ok:
		return "?"
	case c.has("-d", "--deleted"):
		return "R"
	case c.has("-m", "--modified"):
		return "C"
	}
	letter := "H"
	if x[name].skipped {
		letter = "S"
	}
	if c.has("-v") && x[name].assumed {
		letter = strings.ToLower(letter)
	}
	return letter
}

// lineEndsOfFile returns the columns of git ls-files --eol: what the index and the working tree have, and the attributes.
func (c *call) lineEndsOfFile(x index, name string) string {
	describe := func(b []byte, err error) string {
		if err != nil {
			return ""
		}
		c.p.Tick(1 + len(b)>>4)
		crlf := bytes.Count(b, []byte("\r\n"))
		lone := bytes.Count(b, []byte("\n")) - crlf
		switch {
		case looksBinary(b):
			return "-text"
		case crlf > 0 && lone > 0:
			return "mixed"
		case crlf > 0:
			return "crlf"
		case lone > 0:
			return "lf"
		}
		return "none"
	}
	stored, work := "", ""
	if e, ok := x[name]; ok && e.mode&0o170000 == 0o100000 {
		_, b, err := c.readObject(e.id)
		stored = describe(b, err)
		c.release(b)
	}
	if e, ok, err := c.workEntry(name); err == nil && ok && e.mode&0o170000 == 0o100000 {
		b, err := c.p.ReadFile(c.root + "/" + name)
		work = describe(b, err)
		c.release(b)
	}
	return fmt.Sprintf("i/%-5s w/%-5s attr/%-17s\t", stored, work, c.lineEndAttributes(name))
}

// lineEndAttributes returns the attributes of a file that are about line ends.
func (c *call) lineEndAttributes(name string) string {
	eol := c.attribute(name, "eol")
	var words []string
	switch text := c.attribute(name, "text"); {
	case text == "auto":
		words = append(words, "text=auto")
	case text == attributeSet || text != attributeUnset && (eol == "lf" || eol == "crlf"):
		words = append(words, "text")
	case text == attributeUnset:
		return "-text"
	}
	if len(words) > 0 && (eol == "lf" || eol == "crlf") {
		words = append(words, "eol="+eol)
	}
	return strings.Join(words, " ")
}

// listModified returns the files of the index that differ in the working tree, or that are missing there.
func (c *call) listModified(x index) ([]string, error) {
	var names []string
	for _, name := range sortedKeys(x) {
		now, ok, err := c.workState(name, x[name])
		if err != nil {
			return nil, err
		}
		if x[name].assumed {
			_, err := c.p.Lstat(c.root + "/" + name)
			ok = err == nil
		}
		if !ok || now != x[name].treeEntry && c.has("-m", "--modified") {
			names = append(names, name)
		}
		if !ok && c.has("-m", "--modified") && c.has("-d", "--deleted") && !c.has("--deduplicate") {
			names = append(names, name) // as deleted, and as modified
		}
	}
	return names, nil
}
