package git

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// workTree is a working tree of the repository.
type workTree struct {
	root, dir string
	branch    string // full name of its ref; "" if its HEAD is detached
	at        id
	locked    bool
	reason    string // why it is locked
}

// listWorkTrees returns the main working tree and the linked ones.
func (r *repository) listWorkTrees() []workTree {
	describe := func(root, dir string) workTree {
		other := &repository{p: r.p, dir: dir, common: r.common, conf: r.conf, packedRefs: r.packedRefs}
		_, at := other.readHead()
		return workTree{root: root, dir: dir, branch: other.readSymbolic("HEAD"), at: at, locked: other.hasGitFile("locked"), reason: other.readGitFile("locked")}
	}
	main := r.common
	if path.Base(main) == ".git" && !r.conf.isTrue("core.bare") {
		main = path.Dir(main)
	}
	list := []workTree{describe(main, r.common)}
	entries, _ := r.p.ReadDir(r.common + "/worktrees") // a missing directory has none
	for _, e := range entries {
		dir := r.common + "/worktrees/" + e.Name()
		b, err := r.p.ReadFile(dir + "/gitdir")
		if err == nil {
			list = append(list, describe(path.Dir(strings.TrimSpace(string(b))), dir))
		}
	}
	return list
}

// findCheckout returns the working tree that has a branch checked out, or "".
func (r *repository) findCheckout(branch string) string {
	for _, w := range r.listWorkTrees() {
		if w.branch == "refs/heads/"+branch && !(w.dir == r.common && r.conf.isTrue("core.bare")) {
			return w.root
		}
	}
	return ""
}

// manageWorkTrees is git worktree.
func (c *call) manageWorkTrees() error {
	verb, args := "", c.args
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "list":
		return c.printWorkTrees()
	case "add":
		if len(args) == 0 {
			return &failure{129, "usage: git worktree add [-f] [--detach] [-b <new-branch>] <path> [<commit-ish>]"}
		}
		return c.addWorkTree(args)
	case "remove":
		if len(args) == 0 {
			return &failure{129, "usage: git worktree remove [-f] <worktree>"}
		}
		return c.removeWorkTree(args[0])
	case "prune":
		return c.pruneWorkTrees()
	case "lock", "unlock":
		return c.lockWorkTree(verb, args)
	case "move":
		return c.moveWorkTree(args)
	case "repair":
		return c.repairWorkTrees(args)
	}
	return &failure{129, "error: unknown subcommand: `" + verb + "'\nusage: git worktree add|list|lock|move|prune|remove|repair|unlock"}
}

// pruneWorkTrees forgets the working trees whose directories were removed.
func (c *call) pruneWorkTrees() error {
	for _, w := range c.listWorkTrees()[1:] {
		if w.locked || !c.isPrunable(w) {
			continue
		}
		if c.has("-n", "--dry-run", "-v", "--verbose") {
			_ = c.printError("Removing worktrees/%s: gitdir file points to non-existent location", path.Base(w.dir))
		}
		if c.has("-n", "--dry-run") {
			continue
		}
		if err := c.p.RemoveAll(w.dir); err != nil {
			return err
		}
	}
	return nil
}

// isPrunable reports whether the directory of a linked working tree was removed.
func (c *call) isPrunable(w workTree) bool {
	_, err := c.p.Lstat(w.root + "/.git")
	return err != nil && w.dir != c.common
}

// findWorkTree returns the working tree of a path, or of its last words if they name only one.
func (c *call) findWorkTree(name string) (workTree, error) {
	root := path.Clean(c.p.Path(name))
	list := c.listWorkTrees()
	var found []workTree
	for _, w := range list {
		if w.root == root {
			return w, nil
		}
		if strings.HasSuffix(w.root, "/"+strings.Trim(name, "/")) {
			found = append(found, w)
		}
	}
	if len(found) != 1 {
		return workTree{}, newFatal("'%s' is not a working tree", name)
	}
	return found[0], nil
}

// lockWorkTree protects a linked working tree from being moved, removed or pruned, or ends that.
func (c *call) lockWorkTree(verb string, args []string) error {
	if len(args) != 1 {
		return &failure{129, "usage: git worktree " + verb + " <worktree>"}
	}
	w, err := c.findWorkTree(args[0])
	switch {
	case err != nil:
		return err
	case w.dir == c.common:
		return newFatal("The main working tree cannot be locked or unlocked")
	case verb == "unlock" && !w.locked:
		return newFatal("'%s' is not locked", args[0])
	case verb == "unlock":
		return c.p.Unlink(w.dir + "/locked")
	case w.locked && w.reason != "":
		return newFatal("'%s' is already locked, reason: %s", args[0], w.reason)
	case w.locked:
		return newFatal("'%s' is already locked", args[0])
	}
	reason := c.flags["--reason"]
	if reason != "" {
		reason += "\n"
	}
	return c.p.WriteFile(w.dir+"/locked", []byte(reason), 0o644)
}

// errLocked returns the error for a command that a lock forbids.
func errLocked(act string, w workTree) error {
	if w.reason != "" {
		return newFatal("cannot %s a locked working tree, lock reason: %s\nuse '%s -f -f' to override or unlock first", act, w.reason, act)
	}
	return newFatal("cannot %s a locked working tree;\nuse '%s -f -f' to override or unlock first", act, act)
}

// isForced reports whether --force was given twice, which overrides a lock.
func (c *call) isForced() bool { return len(c.values["-f"])+len(c.values["--force"]) > 1 }

// moveWorkTree moves a linked working tree to another directory.
func (c *call) moveWorkTree(args []string) error {
	if len(args) != 2 {
		return &failure{129, "usage: git worktree move <worktree> <new-path>"}
	}
	w, err := c.findWorkTree(args[0])
	if err != nil {
		return err
	}
	to := path.Clean(c.p.Path(args[1]))
	if info, err := c.p.Stat(to); err == nil && info.IsDir() {
		to += "/" + path.Base(w.root)
	}
	_, err = c.p.Lstat(to)
	switch {
	case w.dir == c.common:
		return newFatal("'%s' is a main working tree", args[0])
	case w.locked && !c.isForced():
		return errLocked("move", w)
	case err == nil:
		return newFatal("target '%s' already exists", to)
	}
	if err := c.p.Rename(w.root, to); err != nil {
		return newFatal("failed to move '%s' to '%s'", w.root, to)
	}
	return c.p.WriteFile(w.dir+"/gitdir", []byte(to+"/.git\n"), 0o644)
}

// repairWorkTrees joins working trees that were moved without git to the repository again: those of the operands, or the
// current one.
func (c *call) repairWorkTrees(args []string) error {
	for _, w := range c.listWorkTrees()[1:] { // the repository itself was moved
		file := w.root + "/.git"
		b, err := c.p.ReadFile(file)
		if err != nil {
			continue
		}
		if target, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: "); ok && target != w.dir && path.Base(target) == path.Base(w.dir) {
			_ = c.printError("repair: .git file incorrect: %s", w.root)
			if err := c.p.WriteFile(file, []byte("gitdir: "+w.dir+"\n"), 0o644); err != nil {
				return err
			}
		}
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	for _, name := range args {
		root := path.Clean(c.p.Path(name))
		b, err := c.p.ReadFile(root + "/.git")
		target, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
		if err != nil || !ok || path.Dir(target) != c.common+"/worktrees" {
			continue
		}
		file := target + "/gitdir"
		if b, err := c.p.ReadFile(file); err != nil || strings.TrimSpace(string(b)) == root+"/.git" {
			continue
		}
		_ = c.printError("repair: gitdir incorrect: %s", file)
		if err := c.p.WriteFile(file, []byte(root+"/.git\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// describeWorkTree returns the lines about a working tree that programs read.
func (c *call) describeWorkTree(w workTree, bare bool) []string {
	lines := []string{"worktree " + w.root}
	switch {
	case bare:
		lines = append(lines, "bare")
	case w.branch == "":
		lines = append(lines, "HEAD "+string(w.at), "detached")
	default:
		lines = append(lines, "HEAD "+orDefault(string(w.at), string(zeroID)), "branch "+w.branch)
	}
	if w.locked {
		lines = append(lines, strings.TrimSuffix("locked "+w.reason, " "))
	}
	if c.isPrunable(w) {
		lines = append(lines, "prunable gitdir file points to non-existent location")
	}
	return lines
}

func (c *call) printWorkTrees() error {
	list := c.listWorkTrees()
	width := 0
	for _, w := range list {
		width = max(width, len(w.root))
	}
	for _, w := range list {
		out := c.p.Out()
		bare := w.dir == c.common && c.conf.isTrue("core.bare")
		if c.has("--porcelain") {
			for _, line := range append(c.describeWorkTree(w, bare), "") {
				_, _ = out.WriteString(line + c.lineEnd()) // Flush reports the error, as of all writes
			}
			continue
		}
		what := orDefault(string(w.at), string(zeroID))[:7] + " (detached HEAD)"
		if w.branch != "" {
			what = orDefault(string(w.at), string(zeroID))[:7] + " [" + shortenRef(w.branch) + "]"
		}
		if bare {
			what = "(bare)"
		}
		if w.locked {
			what += " locked"
		}
		if c.isPrunable(w) {
			what += " prunable"
		}
		_, _ = fmt.Fprintf(out, "%-*s  %s\n", width, w.root, what)
	}
	return nil
}

// addWorkTree creates a linked working tree.
func (c *call) addWorkTree(args []string) error {
	root := path.Clean(c.p.Path(args[0]))
	if list, err := c.p.ReadDir(root); err == nil && len(list) > 0 {
		return newFatal("'%s' already exists", args[0])
	}
	branch, rev := c.flags["-b"]+c.flags["-B"], "HEAD"
	if len(args) > 1 {
		rev = c.previousBranch(args[1])
	}
	if len(args) == 1 && branch == "" && !c.has("--detach", "-d") {
		if branch = path.Base(root); c.readRef("refs/heads/"+branch) != "" {
			rev, branch = branch, ""
		}
	}
	k, err := c.resolveCommit(rev)
	if err != nil {
		return newFatal("invalid reference: %s", rev)
	}
	existing := branch == "" && c.readRef("refs/heads/"+rev) != "" && !c.has("--detach", "-d")
	message := fmt.Sprintf("Preparing worktree (detached HEAD %s)", k.id.short())
	switch {
	case branch != "":
		message = fmt.Sprintf("Preparing worktree (new branch '%s')", branch)
		if err := c.createBranch(branch, rev, c.has("-B")); err != nil {
			return err
		}
	case existing:
		if at := c.findCheckout(rev); at != "" && !c.has("-f", "--force") {
			_ = c.printMessage("Preparing worktree (checking out '%s')", rev)
			return newFatal("'%s' is already checked out at '%s'", rev, at)
		}
		branch = rev
		message = fmt.Sprintf("Preparing worktree (checking out '%s')", branch)
	}
	if err := c.printMessage("%s", message); err != nil {
		return err
	}
	other, err := c.linkWorkTree(root, branch, k.id)
	if err != nil {
		return err
	}
	if c.has("--lock") {
		if err := other.writeGitFile("locked", c.flags["--reason"]+"\n"); err != nil {
			return err
		}
	}
	if c.has("--no-checkout") {
		return nil
	}
	if err := other.resetFiles(k.id, true); err != nil || c.has("-q", "--quiet") {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "HEAD is now at %s %s\n", k.id.short(), k.subject()) // Flush reports the error
	return nil
}

// linkWorkTree writes the files that join a working tree to the repository.
func (c *call) linkWorkTree(root, branch string, at id) (*repository, error) {
	name := path.Base(root)
	for n := 1; ; n++ {
		if _, err := c.p.Lstat(c.common + "/worktrees/" + name); err != nil {
			break
		}
		name = fmt.Sprintf("%s%d", path.Base(root), n)
	}
	dir := c.common + "/worktrees/" + name
	head := string(at) + "\n"
	if branch != "" {
		head = "ref: refs/heads/" + branch + "\n"
	}
	if err := c.p.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := c.p.MkdirAll(root, 0o777); err != nil {
		return nil, err
	}
	for _, file := range [][2]string{{dir + "/HEAD", head}, {dir + "/commondir", "../..\n"}, {dir + "/gitdir", root + "/.git\n"}, {dir + "/ORIG_HEAD", string(at) + "\n"}, {root + "/.git", "gitdir: " + dir + "\n"}} {
		if err := c.p.WriteFile(file[0], []byte(file[1]), 0o644); err != nil {
			return nil, err
		}
	}
	other := openAt(c.p, root)
	if other == nil {
		return nil, newFatal("the working tree '%s' can't be opened", root)
	}
	return other, other.appendLog("HEAD", "", at, "")
}

// removeWorkTree removes a linked working tree that has no changes, or with --force another one.
func (c *call) removeWorkTree(name string) error {
	w, err := c.findWorkTree(name)
	switch {
	case err != nil:
		return err
	case w.dir == c.common:
		return newFatal("'%s' is a main working tree", name)
	case w.locked && !c.isForced():
		return errLocked("remove", w)
	}
	if other := openAt(c.p, w.root); other != nil && !c.has("-f", "--force") {
		s, err := other.readState()
		if err != nil {
			return err
		}
		if len(s.staged)+len(s.unstaged)+len(s.unmerged)+len(s.untracked) > 0 {
			return newFatal("'%s' contains modified or untracked files, use --force to delete it", name)
		}
	}
	if err := c.p.RemoveAll(w.root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.p.RemoveAll(w.dir)
}
