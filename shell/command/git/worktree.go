package git

import (
	"fmt"
	"path"
	"strings"
)

// workTree is a working tree of the repository.
type workTree struct {
	root, dir string
	branch    string // full name of its ref; "" if its HEAD is detached
	at        id
}

// listWorkTrees returns the main working tree and the linked ones.
func (r *repository) listWorkTrees() []workTree {
	describe := func(root, dir string) workTree {
		other := &repository{p: r.p, dir: dir, common: r.common, conf: r.conf, packedRefs: r.packedRefs}
		_, at := other.readHead()
		return workTree{root, dir, other.readSymbolic("HEAD"), at}
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
		for _, w := range c.listWorkTrees()[1:] {
			if _, err := c.p.Lstat(w.root + "/.git"); err != nil {
				if err := c.p.RemoveAll(w.dir); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return newFatal("git worktree %s is not supported here: it knows add, list, remove and prune", verb)
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
			_, _ = fmt.Fprintf(out, "worktree %s\n", w.root) // Flush reports the error, as of all writes
			switch {
			case bare:
				_, _ = fmt.Fprint(out, "bare\n\n")
			case w.branch == "":
				_, _ = fmt.Fprintf(out, "HEAD %s\ndetached\n\n", w.at)
			default:
				_, _ = fmt.Fprintf(out, "HEAD %s\nbranch %s\n\n", orDefault(string(w.at), string(zeroID)), w.branch)
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

func (c *call) removeWorkTree(name string) error {
	root := path.Clean(c.p.Path(name))
	for _, w := range c.listWorkTrees()[1:] {
		if w.root != root && path.Base(w.root) != name {
			continue
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
		if err := c.p.RemoveAll(w.root); err != nil {
			return err
		}
		return c.p.RemoveAll(w.dir)
	}
	return newFatal("'%s' is not a working tree", name)
}
