package git

import "fmt"

// mergeThreeFiles is git merge-file: it merges the lines of three files into the first, or prints them.
func (c *call) mergeThreeFiles() error {
	if len(c.args) != 3 {
		return &failure{129, "usage: git merge-file [<options>] [-L <name1> [-L <orig> [-L <name2>]]] <file1> <orig-file> <file2>"}
	}
	var texts [3][]byte
	m := &textMerge{p: c.p, labels: [3]string(c.args), favor: mergeConflict, showBase: c.has("--diff3", "--zdiff3") || c.conf.get("merge.conflictstyle") == "diff3"}
	for n, name := range c.args {
		b, err := c.p.ReadFile(name)
		if err != nil {
			return &failure{255, "error: Could not stat " + name}
		}
		if isBinary(b) {
			return &failure{255, "error: Cannot merge binary files: " + name}
		}
		texts[n] = b
		if labels := c.values["-L"]; n < len(labels) {
			m.labels[n] = labels[n]
		}
	}
	switch {
	case c.has("--ours"):
		m.favor = mergeOurs
	case c.has("--theirs"):
		m.favor = mergeTheirs
	}
	text, conflicting := m.mergeTexts(texts[1], texts[0], texts[2])
	if c.has("-p", "--stdout") {
		_, _ = c.p.Out().Write(text) // Flush reports the error
	} else if err := c.p.WriteFile(c.args[0], text, 0o666); err != nil {
		return err
	}
	if !conflicting {
		return nil
	}
	count := 0
	for _, r := range m.regions {
		if r.kind == mergeConflict {
			count++
		}
	}
	if !c.has("-q", "--quiet") && !c.has("-p", "--stdout") {
		_, _ = fmt.Fprintf(c.p.Stderr, "warning: conflicts while merging %s\n", c.args[0]) // best effort
	}
	return &failure{min(count, 127), ""}
}
