package git

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// writeTreeCommit is git commit-tree: it stores a commit of a tree.
func (c *call) writeTreeCommit() error {
	if len(c.args) != 1 {
		return &failure{129, "usage: git commit-tree <tree> [(-p <parent>)...]"}
	}
	tree, err := c.resolveObject(c.args[0])
	if err != nil {
		return newFatal("not a valid object name %s", c.args[0])
	}
	if kind, err := c.readKind(tree); err != nil || kind != "tree" {
		return newFatal("%s is not a valid 'tree' object", tree)
	}
	var parents []id
	for _, name := range c.values["-p"] {
		k, err := c.resolveCommit(name)
		if err != nil {
			return newFatal("not a valid object name %s", name)
		}
		if slices.Contains(parents, k.id) {
			_, _ = fmt.Fprintf(c.p.Stderr, "error: duplicate parent %s ignored\n", k.id) // best effort
			continue
		}
		parents = append(parents, k.id)
	}
	message, given := c.flags["-m"]
	switch {
	case c.has("-F"):
		if message, _, err = c.findMessageText(""); err != nil {
			return err
		}
	case given:
		message = strings.TrimSuffix(message, "\n") + "\n"
	default:
		b, err := c.p.ReadAll(c.p.Stdin)
		if err != nil {
			return err
		}
		message = string(b)
	}
	author, err := c.buildIdentity("AUTHOR")
	if err != nil {
		return err
	}
	i, err := c.writeCommit(tree, parents, author, message)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
	return nil
}

// makeTree is git mktree: it stores a tree with the entries that standard input lists as git ls-tree does.
func (c *call) makeTree() error {
	b, err := c.p.ReadAll(c.p.Stdin)
	if err != nil {
		return err
	}
	end := "\n"
	if c.has("-z") {
		end = "\x00"
	}
	type entry struct{ key, text string }
	var list []entry
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), end), end) {
		if line == "" {
			continue
		}
		head, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) < 3 {
			return newFatal("input format error: %s", line)
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		i := id(fields[2])
		raw, herr := hex.DecodeString(fields[2])
		if err != nil || herr != nil || !i.isValid() || !isSafeName(name) {
			return newFatal("input format error: %s", line)
		}
		kind := "blob"
		switch uint32(mode) {
		case modeTree:
			kind = "tree"
		case modeRepo:
			kind = "commit"
		}
		if fields[1] != kind {
			return newFatal("entry '%s' object type (%s) doesn't match mode type (%s)", name, fields[1], kind)
		}
		if kind != "commit" && !c.has("--missing") {
			if is, err := c.readKind(i); err != nil {
				return newFatal("entry '%s' object %s is unavailable", name, i)
			} else if is != kind {
				return newFatal("entry '%s' object %s is a %s but specified type was (%s)", name, i, is, kind)
			}
		}
		key := name
		if kind == "tree" {
			key += "/"
		}
		c.p.Alloc(int64(len(name)) + 128)
		list = append(list, entry{key, formatMode(uint32(mode)) + " " + name + "\x00" + string(raw)})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	var tree strings.Builder
	for _, e := range list {
		tree.WriteString(e.text)
	}
	i, err := c.writeObject("tree", []byte(tree.String()))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
	return nil
}

// countObjects is git count-objects. A file takes whole blocks of 4 KiB.
func (c *call) countObjects() error {
	dir := c.common + "/objects"
	loose, size, packed, packs, packSize := 0, int64(0), 0, 0, int64(0)
	top, err := c.p.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range top {
		if len(e.Name()) != 2 || strings.Trim(e.Name(), "0123456789abcdef") != "" {
			continue
		}
		files, err := c.p.ReadDir(dir + "/" + e.Name())
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := c.p.Lstat(dir + "/" + e.Name() + "/" + f.Name()); err == nil && len(f.Name()) == 38 {
				loose++
				size += (info.Size() + 4095) / 4096 * 4
			}
		}
	}
	for _, k := range c.loadPacks() {
		packs++
		packed += k.count
		for _, name := range []string{k.name, strings.TrimSuffix(k.name, ".pack") + ".idx"} {
			if info, err := c.p.Lstat(name); err == nil {
				packSize += info.Size()
			}
		}
	}
	if !c.has("-v", "--verbose") {
		_, _ = fmt.Fprintf(c.p.Out(), "%d objects, %d kilobytes\n", loose, size) // Flush reports the error
		return nil
	}
	_, _ = fmt.Fprintf(c.p.Out(), "count: %d\nsize: %d\nin-pack: %d\npacks: %d\nsize-pack: %d\nprune-packable: 0\ngarbage: 0\nsize-garbage: 0\n", loose, size, packed, packs, packSize/1024)
	return nil
}

// linkMemory is the memory charged for an object that is to be read.
const linkMemory = 64

// checkObjects is git fsck: it reads every object that refs, the index and reflogs lead to. What is read is checked against its name.
func (c *call) checkObjects() error {
	var stack []id
	if _, at := c.readHead(); at != "" {
		stack = append(stack, at)
	}
	for _, name := range c.listRefs("refs/") {
		at := c.readRef("refs/" + name)
		if !c.hasObject(at) {
			return &failure{2, "error: refs/" + name + ": invalid sha1 pointer " + string(at)}
		}
		stack = append(stack, at)
		for _, e := range c.readLog("refs/" + name) {
			if c.hasObject(e.new) { // an old one may be gone
				stack = append(stack, e.new)
			}
		}
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	for _, e := range x {
		if e.mode != modeRepo {
			stack = append(stack, e.id)
		}
	}
	c.p.Alloc(linkMemory * int64(len(stack)))
	seen, shallow := make(map[id]bool), c.readShallow()
	broken := false
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c.p.Free(linkMemory)
		if seen[i] {
			continue
		}
		c.p.Alloc(160)
		seen[i] = true
		if !c.hasObject(i) {
			broken = true
			_, _ = fmt.Fprintf(c.p.Out(), "missing %s\n", i) // Flush reports the error
			continue
		}
		next, err := c.listLinks(i)
		if err != nil {
			broken = true
			_, _ = fmt.Fprintf(c.p.Stderr, "error: %s: %v\n", i, err) // best effort
		}
		if shallow[i] { // its parents are not here
			next = next[:min(1, len(next))]
		}
		next = slices.DeleteFunc(next, func(n id) bool { return seen[n] })
		c.p.Alloc(linkMemory * int64(len(next)))
		stack = append(stack, next...)
	}
	if broken {
		return &failure{1, ""}
	}
	return nil
}

// keepRefs is git pack-refs. It changes nothing: refs stay in files of their own.
func (c *call) keepRefs() error { return nil }

// manageSubmodules is git submodule in a repository without submodules, where it does nothing, and git submodule status.
func (c *call) manageSubmodules() error {
	act := "status"
	for _, a := range c.args {
		if !strings.HasPrefix(a, "-") {
			act = a
			break
		}
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	var lines []string
	for _, name := range sortedKeys(x) {
		if x[name].mode == modeRepo {
			lines = append(lines, "-"+string(x[name].id)+" "+name)
		}
	}
	switch {
	case !slices.Contains([]string{"status", "init", "update", "sync", "foreach", "deinit", "summary"}, act), act != "status" && len(lines) > 0:
		return &failure{1, "git: 'submodule " + act + "' is not available in a virtual sandbox: clone the other repository into a directory of its own."}
	case act == "status":
		for _, line := range lines {
			_, _ = fmt.Fprintln(c.p.Out(), line) // Flush reports the error
		}
	}
	return nil
}

// stripSpace is git stripspace: it cleans standard input as the message of a commit.
func (c *call) stripSpace() error {
	b, err := c.p.ReadAll(c.p.Stdin)
	if err != nil {
		return err
	}
	text := string(b)
	if c.has("-c", "--comment-lines") {
		for line := range strings.Lines(text) {
			mark := "# "
			if line == "\n" || strings.HasPrefix(line, "\t") {
				mark = "#"
			}
			_, _ = fmt.Fprintln(c.p.Out(), mark+strings.TrimSuffix(line, "\n")) // Flush reports the error, as of all writes
		}
		return nil
	}
	if c.has("-s", "--strip-comments") {
		text = dropComments(text)
	}
	_, _ = c.p.Out().WriteString(cleanMessage(text))
	return nil
}
