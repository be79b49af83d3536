package git

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// printRevisions prints the names of revisions and places of the repository.
func (c *call) printRevisions() error {
	if c.printPlaces() {
		return nil
	}
	args := append(slices.Clone(c.args), c.paths...)
	for _, rev := range args {
		list, err := c.parseRevisions(rev)
		if err != nil && c.has("-q", "--quiet") {
			return &failure{1, ""}
		}
		if err != nil {
			if c.has("--verify") {
				return newFatal("Needed a single revision")
			}
			if base, inner, ok := strings.Cut(rev, "@{"); ok && (inner == "u}" || inner == "upstream}" || inner == "push}") {
				if base == "" {
					base, _ = c.readHead()
				}
				return newFatal("no upstream configured for branch '%s'", base)
			}
			if len(args) == 1 && !c.has("--short", "--abbrev-ref") {
				_, _ = fmt.Fprintln(c.p.Out(), rev) // Flush reports the error
			}
			return err
		}
		if err := c.printRevision(rev, list); err != nil {
			return err
		}
	}
	for option, prefix := range map[string]string{"--all": "refs/", "--branches": "refs/heads/", "--tags": "refs/tags/", "--remotes": "refs/remotes/"} {
		if c.has(option) {
			for _, name := range c.listRefs(prefix) {
				_, _ = fmt.Fprintln(c.p.Out(), c.readRef(prefix+name)) // Flush reports the error
			}
		}
	}
	return nil
}

// printPlaces prints what the options of rev-parse ask for; it reports whether there was one.
func (c *call) printPlaces() bool {
	out, found := c.p.Out(), false
	print := func(text string) {
		found = true
		_, _ = fmt.Fprintln(out, text) // Flush reports the error
	}
	here, err := c.p.Resolve(".")
	inside := c.root != "" && err == nil && isBelow(here, c.root) && !isBelow(here, c.dir)
	for _, option := range c.order {
		switch option {
		case "--show-toplevel":
			print(c.root)
		case "--git-dir", "--git-common-dir", "--absolute-git-dir":
			dir := c.dir
			if option == "--git-common-dir" {
				dir = c.common
			}
			switch {
			case option != "--absolute-git-dir" && here == c.root && dir == path.Join(c.root, ".git"):
				print(".git")
			case option != "--absolute-git-dir" && here == dir:
				print(".")
			case option == "--git-common-dir" && inside && dir == path.Join(c.root, ".git"):
				print(strings.Repeat("../", strings.Count(here[len(c.root):], "/")) + ".git")
			default:
				print(dir)
			}
		case "--is-inside-work-tree":
			print(fmt.Sprint(inside))
		case "--is-inside-git-dir":
			print(fmt.Sprint(err == nil && isBelow(here, c.dir)))
		case "--is-bare-repository":
			print(fmt.Sprint(c.conf.isTrue("core.bare")))
		case "--is-shallow-repository":
			print(fmt.Sprint(c.readShallow() != nil))
		case "--show-object-format":
			print("sha1")
		case "--show-prefix", "--show-cdup":
			dir, err := c.relativePath(".")
			if err != nil || dir == "" {
				print("")
				continue
			}
			if option == "--show-cdup" {
				print(strings.Repeat("../", strings.Count(dir, "/")+1))
				continue
			}
			print(dir + "/")
		}
	}
	if name, ok := c.flags["--git-path"]; ok {
		print(path.Join(".git", name))
	}
	return found && len(c.args) == 0
}

// parseRevisions returns the objects of an operand of rev-parse; excluded ones begin with ^.
func (c *call) parseRevisions(rev string) ([]string, error) {
	if rest, ok := strings.CutPrefix(rev, "^"); ok && rest != "" {
		i, err := c.resolveObject(rest)
		return []string{"^" + string(i)}, err
	}
	var s selection
	ok, err := c.addRange(&s, rev)
	if err != nil {
		return nil, err
	}
	if !ok {
		i, err := c.resolveObject(rev)
		return []string{string(i)}, err
	}
	var list []string
	if s.left != nil { // A...B
		slices.Reverse(s.starts)
	}
	for _, i := range s.starts {
		list = append(list, string(i))
	}
	if s.left != nil {
		slices.Reverse(list)
	}
	for _, i := range s.without {
		list = append(list, "^"+string(i))
	}
	return list, nil
}

func (c *call) printRevision(rev string, list []string) error {
	out := c.p.Out()
	_, abbreviate := c.flags["--abbrev-ref"]
	for _, text := range list {
		switch ref := c.expandRef(rev); {
		case abbreviate || c.has("--symbolic-full-name"):
			if target := c.readSymbolic(orDefault(ref, "HEAD")); target != "" && ref != "" {
				ref = target
			} else if strings.HasSuffix(rev, "@{u}") || strings.HasSuffix(rev, "@{upstream}") {
				base := cutBefore(rev, "@{")
				if base == "" {
					base, _ = c.readHead()
				}
				ref = c.findUpstream(base)
			}
			if abbreviate {
				ref = shortenRef(ref)
			}
			if ref != "" {
				_, _ = fmt.Fprintln(out, ref) // Flush reports the error, as of all writes
			}
		case c.has("--short"):
			n := 7
			if _, err := fmt.Sscan(c.flags["--short"], &n); err != nil && c.flags["--short"] != "" {
				return newFatal("invalid length: %s", c.flags["--short"])
			}
			_, _ = fmt.Fprintln(out, text[:min(max(n, 4), len(text))])
		default:
			_, _ = fmt.Fprintln(out, text)
		}
	}
	return nil
}

// printObject prints an object, its kind or its size.
func (c *call) printObject() error {
	if c.has("--batch", "--batch-check") {
		return c.printBatch()
	}
	if len(c.args) == 0 {
		return newFatal("git cat-file takes -p, -t, -s or -e and an object here")
	}
	rev := c.args[len(c.args)-1]
	i := id(rev)
	if !i.isValid() || !c.hasObject(i) {
		at, err := c.resolveObject(rev)
		if err != nil {
			return newFatal("Not a valid object name %s", rev)
		}
		i = at
	}
	if len(c.args) == 2 && (c.args[0] == "commit" || c.args[0] == "tree") {
		at, err := c.peelTo(i, c.args[0], newFatal("git cat-file %s: bad file", rev))
		if err != nil {
			return err
		}
		i = at
	}
	kind, b, err := c.readObject(i)
	switch {
	case err != nil:
		return err
	case c.has("-t"):
		_, _ = fmt.Fprintln(c.p.Out(), kind) // Flush reports the error, as of all writes
	case c.has("-s"):
		_, _ = fmt.Fprintln(c.p.Out(), len(b))
	case c.has("-e"):
	case kind == "tree" && c.has("-p"):
		return c.with(map[string]string{}, []string{string(i)}).listTree()
	default:
		_, _ = c.p.Out().Write(b)
	}
	return nil
}

// printBatch prints the objects that standard input names.
func (c *call) printBatch() error {
	b, err := c.p.ReadAll(c.p.Stdin)
	if err != nil {
		return err
	}
	format := orDefault(c.flags["--batch"]+c.flags["--batch-check"], "%(objectname) %(objecttype) %(objectsize)")
	for line := range strings.Lines(string(b)) {
		rev := strings.TrimSpace(line)
		whole, after := rev, ""
		if strings.Contains(format, "%(rest)") {
			if at := strings.IndexAny(rev, " \t"); at >= 0 {
				rev, after = rev[:at], strings.TrimLeft(rev[at:], " \t")
			}
		}
		i, err := c.resolveObject(rev)
		if err != nil {
			_, _ = fmt.Fprintf(c.p.Out(), "%s missing\n", whole) // Flush reports the error, as of all writes
			continue
		}
		kind, body, err := c.readObject(i)
		if err != nil {
			return err
		}
		line := strings.NewReplacer("%(objectname)", string(i), "%(objecttype)", kind, "%(objectsize)", strconv.Itoa(len(body)), "%(rest)", after,
			"%(objectsize:disk)", strconv.Itoa(len(body)), "%(deltabase)", string(zeroID), "%%", "%").Replace(format)
		_, _ = fmt.Fprintln(c.p.Out(), line)
		if c.has("--batch") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s\n", body)
		}
		c.release(body)
	}
	return nil
}

// listTree prints the entries of a tree.
func (c *call) listTree() error {
	if len(c.args) == 0 {
		return &failure{129, "usage: git ls-tree [<options>] <tree-ish> [<path>...]"}
	}
	i, err := c.resolveRevision(c.args[0])
	if err != nil {
		return newFatal("Not a valid object name %s", c.args[0])
	}
	tree, err := c.peelTo(i, "tree", newFatal("not a tree object"))
	if err != nil {
		return err
	}
	here := ""
	if c.root != "" && !c.has("--full-tree") {
		if here, err = c.relativePath("."); err != nil {
			return err
		}
	}
	var paths []string
	for _, p := range append(slices.Clone(c.args[1:]), c.paths...) {
		full := path.Join(here, p)
		if strings.HasSuffix(p, "/") {
			full += "/"
		}
		paths = append(paths, full)
	}
	if len(paths) == 0 && here != "" {
		paths = []string{here + "/"}
	}
	return c.listSubtree(tree, "", here, paths)
}

func (c *call) listSubtree(tree id, prefix, here string, paths []string) error {
	if !c.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer c.p.Leave()
	items, err := c.readTreeItems(tree)
	if err != nil {
		return err
	}
	for _, it := range items {
		name := prefix + it.name
		selected, above := len(paths) == 0, false
		for _, p := range paths {
			bare := strings.TrimSuffix(p, "/")
			selected = selected || name == bare && p == bare || strings.HasPrefix(name, bare+"/")
			above = above || isBelow(bare, name) && p != name
		}
		isTree := it.mode == modeTree
		if isTree && (c.has("-r") && selected || above) {
			if c.has("-t") {
				c.printTreeItem(it, name, here)
			}
			if err := c.listSubtree(it.id, name+"/", here, paths); err != nil {
				return err
			}
			continue
		}
		if selected && (isTree || !c.has("-d")) {
			c.printTreeItem(it, name, here)
		}
	}
	return nil
}

func (c *call) printTreeItem(it treeItem, name, here string) {
	kind := "blob"
	switch it.mode {
	case modeTree:
		kind = "tree"
	case modeRepo:
		kind = "commit"
	}
	shown := name
	if here != "" && !c.has("--full-name") {
		shown = c.displayPath(name)
	}
	if !c.has("-z") {
		shown = c.quotePath(shown)
	}
	switch {
	case c.has("--name-only", "--name-status"):
		_, _ = fmt.Fprint(c.p.Out(), shown+c.lineEnd()) // Flush reports the error, as of all writes
	case c.has("--object-only"):
		_, _ = fmt.Fprint(c.p.Out(), string(it.id)+c.lineEnd())
	case c.has("-l", "--long"):
		size := "-"
		if kind == "blob" {
			if _, b, err := c.readObject(it.id); err == nil {
				size = fmt.Sprint(len(b))
				c.release(b)
			}
		}
		_, _ = fmt.Fprintf(c.p.Out(), "%06o %s %s %7s\t%s%s", it.mode, kind, it.id, size, shown, c.lineEnd())
	default:
		_, _ = fmt.Fprintf(c.p.Out(), "%06o %s %s\t%s%s", it.mode, kind, it.id, shown, c.lineEnd())
	}
}

// listRevisions is git rev-list.
func (c *call) listRevisions() error {
	l, err := c.newLog()
	if err != nil {
		return err
	}
	if l.selection, err = c.readSelection(c.args, c.paths, false); err != nil {
		return err
	}
	if len(l.starts) == 0 && !c.has("--all") {
		return &failure{129, "usage: git rev-list [<options>] <commit>... [--] [<path>...]"}
	}
	list, err := l.collect()
	if err != nil {
		return err
	}
	if c.has("--count") {
		left := 0
		for _, k := range list {
			if l.left[k.id] {
				left++
			}
		}
		if c.has("--left-right") {
			_, _ = fmt.Fprintf(c.p.Out(), "%d\t%d\n", left, len(list)-left) // Flush reports the error, as of all writes
			return nil
		}
		_, _ = fmt.Fprintln(c.p.Out(), len(list))
		return nil
	}
	for _, k := range list {
		name := string(k.id)
		if c.has("--abbrev-commit") {
			name = k.id.short()
		}
		if c.has("--parents") {
			for _, parent := range k.parents {
				name += " " + string(parent)
			}
		}
		if l.format == "user" {
			text, err := l.expandFormat(l.template, k)
			if err != nil {
				return err
			}
			name = "commit " + name + "\n" + text
		} else if l.format == "oneline" {
			name += " " + k.subject()
		}
		_, _ = fmt.Fprintln(c.p.Out(), name)
		l.releaseText()
	}
	if c.has("--objects") {
		return l.listObjects(list)
	}
	return nil
}

// hashFiles is git hash-object.
func (c *call) hashFiles() error {
	names := append(slices.Clone(c.args), c.paths...)
	if c.has("--stdin") {
		names = append([]string{""}, names...)
	}
	if c.has("--stdin-paths") {
		var err error
		if names, err = c.readNames(); err != nil {
			return err
		}
	}
	for _, name := range names {
		var b []byte
		var err error
		if name == "" {
			b, err = c.p.ReadAll(c.p.Stdin)
		} else if b, err = c.p.ReadFile(name); err != nil {
			return newFatal("could not open '%s' for reading: No such file or directory", name)
		}
		if err != nil {
			return err
		}
		kind := orDefault(c.flags["-t"], "blob")
		i := hashObject(c.p, kind, b)
		if c.has("-w") {
			if i, err = c.writeObject(kind, b); err != nil {
				return err
			}
		}
		_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
	}
	return nil
}

// readNames reads names from standard input, one a line; with -z they end with a zero byte. Empty ones are left out.
func (c *call) readNames() ([]string, error) {
	b, err := c.p.ReadAll(c.p.Stdin)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	end := "\n"
	if c.has("-z") {
		end = "\x00"
	}
	c.p.Tick(1 + len(b)/16)
	c.p.Alloc(int64(bytes.Count(b, []byte(end))+1)*16 + int64(len(b)))
	return slices.DeleteFunc(strings.Split(string(b), end), func(name string) bool { return name == "" }), nil
}

// printWrittenTree is git write-tree.
func (c *call) printWrittenTree() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	i, err := c.writeTree(x)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
	return nil
}

// manageSymbolicRef is git symbolic-ref.
func (c *call) manageSymbolicRef() error {
	switch len(c.args) {
	case 1:
		target := c.readSymbolic(c.args[0])
		if target == "" {
			if c.has("-q") {
				return &failure{1, ""}
			}
			return newFatal("ref %s is not a symbolic ref", c.args[0])
		}
		if c.has("--short") {
			target = shortenRef(target)
		}
		_, _ = fmt.Fprintln(c.p.Out(), target) // Flush reports the error
		return nil
	case 2:
		if !strings.HasPrefix(c.args[1], "refs/") || !isRefName(c.args[1]) || c.args[0] != "HEAD" && !isRefName(c.args[0]) {
			return newFatal("Refusing to point %s outside of refs/", c.args[0])
		}
		return c.p.WriteFile(c.refPath(c.args[0]), []byte("ref: "+c.args[1]+"\n"), 0o644)
	}
	return &failure{129, "usage: git symbolic-ref [-q] [--short] <name> [<ref>]"}
}

// showRefs is git show-ref.
func (c *call) showRefs() error {
	found := false
	for _, name := range c.listRefs("refs/") {
		name = "refs/" + name
		heads, tags := strings.HasPrefix(name, "refs/heads/"), strings.HasPrefix(name, "refs/tags/")
		if c.has("--heads", "--tags") && !(heads && c.has("--heads")) && !(tags && c.has("--tags")) ||
			len(c.args) > 0 && !slices.ContainsFunc(c.args, func(p string) bool { return name == p || strings.HasSuffix(name, "/"+p) && !c.has("--verify") }) {
			continue
		}
		found = true
		i := c.readRef(name)
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s %s\n", i, name) // Flush reports the error, as of all writes
		}
		if peeled := c.peelTag(i); c.has("-d", "--dereference") && peeled != i {
			_, _ = fmt.Fprintf(c.p.Out(), "%s %s^{}\n", peeled, name)
		}
	}
	if !found {
		return &failure{1, ""}
	}
	return nil
}

// updateRef is git update-ref.
func (c *call) updateRef() error {
	if len(c.args) == 0 || c.args[0] != "HEAD" && (!strings.HasPrefix(c.args[0], "refs/") || !isRefName(c.args[0])) {
		return newFatal("%s: not a valid ref name", strings.Join(c.args, " "))
	}
	if c.has("-d") {
		return c.deleteRef(c.args[0])
	}
	if len(c.args) < 2 {
		return &failure{129, "usage: git update-ref [-d] <refname> [<new-oid>]"}
	}
	i, err := c.resolveObject(c.args[1])
	if err != nil {
		return newFatal("%s: not a valid SHA1", c.args[1])
	}
	if c.args[0] == "HEAD" {
		return c.setHead(i, orDefault(c.flags["-m"], "update by update-ref"))
	}
	return c.writeRef(c.args[0], i, c.flags["-m"])
}
