package git

import (
	"fmt"
	"slices"
	"strings"
)

// manageBranches lists, creates and deletes branches.
func (c *call) manageBranches() error {
	current, at := c.readHead()
	switch {
	case c.has("--show-current"):
		if current != "" {
			_, _ = fmt.Fprintln(c.p.Out(), current) // Flush reports the error
		}
		return nil
	case c.has("-d", "-D", "--delete"):
		return c.deleteBranches(current)
	case c.has("-m", "-M", "--move"):
		return c.renameBranch(current)
	case c.has("-c", "-C", "--copy"):
		if len(c.args) == 1 {
			c.args = []string{current, c.args[0]}
		}
		if len(c.args) != 2 {
			return newFatal("branch name required")
		}
		return c.createBranch(c.args[1], c.args[0], c.has("-C"))
	case c.has("-u", "--set-upstream-to"):
		if len(c.args) > 0 {
			current = c.args[0]
		}
		return c.setUpstream(current, c.flags["-u"]+c.flags["--set-upstream-to"])
	case c.has("--unset-upstream"):
		_, err := editConfig(c.p, c.common+"/config", configEdit{name: "branch." + current, section: true})
		return err
	case len(c.args) > 0 && !c.has("-l", "--list", "--contains", "--merged", "--no-merged"):
		rev := "HEAD"
		if len(c.args) > 1 {
			rev = c.args[1]
		}
		if err := c.createBranch(c.args[0], rev, c.has("-f", "--force")); err != nil {
			return err
		}
		return c.trackStart(c.args[0], rev)
	}
	return c.listBranches(current, at)
}

// branchLine is a line of the list of branches.
type branchLine struct {
	mark, name, ref, target string
	at                      id
}

// listBranches prints branches and, if asked for, those of remotes.
func (c *call) listBranches(current string, at id) error {
	var lines []branchLine
	if current == "" && !c.has("-r", "--remotes") {
		lines = append(lines, branchLine{mark: "*", name: "(" + orDefault(c.describeDetached(at), "no branch") + ")", at: at})
	}
	if !c.has("-r", "--remotes") {
		for _, name := range c.listRefs("refs/heads/") {
			line := branchLine{mark: " ", name: name, ref: "refs/heads/" + name, at: c.readRef("refs/heads/" + name)}
			if name == current {
				line.mark = "*"
			} else if c.findCheckout(name) != "" {
				line.mark = "+"
			}
			lines = append(lines, line)
		}
	}
	if c.has("-r", "--remotes", "-a", "--all") {
		prefix := "remotes/"
		if c.has("-r", "--remotes") {
			prefix = ""
		}
		for _, name := range c.listRefs("refs/remotes/") {
			line := branchLine{mark: " ", name: prefix + name, ref: "refs/remotes/" + name, at: c.readRef("refs/remotes/" + name)}
			if target := c.readSymbolic(line.ref); target != "" {
				line.target = strings.TrimPrefix(target, "refs/remotes/")
			}
			lines = append(lines, line)
		}
	}
	lines, err := c.filterBranches(lines)
	if err != nil {
		return err
	}
	width := 0
	for _, line := range lines {
		width = max(width, len(line.name))
	}
	for _, line := range lines {
		if err := c.printBranch(line, width); err != nil {
			return err
		}
	}
	return nil
}

// filterBranches removes the branches that the options exclude.
func (c *call) filterBranches(lines []branchLine) ([]branchLine, error) {
	var kept []branchLine
	for _, line := range lines {
		keep := len(c.args) == 0 || !c.has("-l", "--list") || slices.ContainsFunc(c.args, func(pattern string) bool { return matchGlob(c.p, pattern, line.name) })
		for _, option := range []string{"--contains", "--merged", "--no-merged"} {
			if !c.has(option) || !keep {
				continue
			}
			rev := c.flags[option]
			if rev == "" && len(c.args) > 0 && !c.has("-l", "--list") {
				rev = c.args[0]
			}
			at, err := c.resolveRevision(orHead(rev))
			if err != nil {
				return nil, newError("malformed object name %s", rev)
			}
			from, to := line.at, at
			if option == "--contains" {
				from, to = at, line.at
			}
			if keep, err = c.isAncestor(from, to); err != nil {
				return nil, err
			}
			keep = keep != (option == "--no-merged")
		}
		if keep {
			kept = append(kept, line)
		}
	}
	return kept, nil
}

func (c *call) printBranch(line branchLine, width int) error {
	out := c.p.Out()
	if format, ok := c.flags["--format"]; ok {
		text, err := c.expandRefFormat(format, line.ref)
		_, _ = fmt.Fprintln(out, text) // Flush reports the error, as of all writes
		return err
	}
	switch {
	case line.target != "":
		_, _ = fmt.Fprintf(out, "%s %s -> %s\n", line.mark, line.name, line.target)
	case c.has("-v", "-vv", "--verbose"):
		k, err := c.readCommit(line.at)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s %-*s %s %s%s\n", line.mark, width, line.name, line.at.short(), c.describeTracking(line), k.subject())
	default:
		_, _ = fmt.Fprintf(out, "%s %s\n", line.mark, line.name)
	}
	return nil
}

// describeTracking returns how far a branch is from its upstream, such as "[ahead 1] ".
func (c *call) describeTracking(line branchLine) string {
	branch, ok := strings.CutPrefix(line.ref, "refs/heads/")
	upstream := c.findUpstream(branch)
	if !ok || upstream == "" {
		return ""
	}
	text := ""
	if to := c.readRef(upstream); to == "" {
		text = "gone"
	} else if ahead, behind, err := c.countDistance(line.at, to); err == nil {
		text = formatDistance(ahead, behind)
	}
	if c.has("-vv") {
		if text != "" {
			text = ": " + text
		}
		text = shortenRef(upstream) + text
	}
	if text == "" {
		return ""
	}
	return "[" + text + "] "
}

func formatDistance(ahead, behind int) string {
	var parts []string
	if ahead > 0 {
		parts = append(parts, fmt.Sprintf("ahead %d", ahead))
	}
	if behind > 0 {
		parts = append(parts, fmt.Sprintf("behind %d", behind))
	}
	return strings.Join(parts, ", ")
}

// countDistance returns how many commits a and b have that the other has not.
func (r *repository) countDistance(a, b id) (ahead, behind int, err error) {
	count := func(from, without id) (n int, err error) {
		err = r.walkRange([]id{from}, []id{without}, func(*commit) (bool, error) { n++; return true, nil })
		return n, err
	}
	if ahead, err = count(a, b); err != nil {
		return 0, 0, err
	}
	behind, err = count(b, a)
	return ahead, behind, err
}

// describeDetached returns "HEAD detached at NAME", or "from" if commits were made since; "" if HEAD was never moved.
func (c *call) describeDetached(at id) string {
	if state := c.readGitFile("rebase-merge/head-name"); state != "" {
		return "no branch, rebasing " + strings.TrimPrefix(state, "refs/heads/")
	}
	if start := c.readGitFile("BISECT_START"); start != "" {
		return "no branch, bisect started on " + start
	}
	return c.describeMoved(at)
}

// describeMoved is describeDetached outside of a rebase and a bisection.
func (c *call) describeMoved(at id) string {
	for _, e := range c.readLog("HEAD") {
		move, ok := strings.CutPrefix(e.reason, "checkout: moving from ")
		if !ok {
			continue
		}
		_, name, _ := strings.Cut(move, " to ")
		if ref := c.expandRef(name); ref == "" || ref == "HEAD" || !c.isPeeled(ref, e.new) {
			name = e.new.short()
		}
		word := "at"
		if e.new != at {
			word = "from"
		}
		return "HEAD detached " + word + " " + name
	}
	return ""
}

// isPeeled reports whether a ref names a commit, itself or by a tag.
func (r *repository) isPeeled(ref string, at id) bool { return r.peelTag(r.readRef(ref)) == at }

func (c *call) createBranch(name, rev string, force bool) error {
	if !isRefName(name) {
		return newFatal("'%s' is not a valid branch name", name)
	}
	old := c.readRef("refs/heads/" + name)
	if old != "" && !force {
		return newFatal("a branch named '%s' already exists", name)
	}
	if at := c.findCheckout(name); old != "" && at != "" {
		return newFatal("cannot force update the branch '%s' checked out at '%s'", name, at)
	}
	i, err := c.resolveRange(rev)
	if err != nil {
		return newFatal("not a valid object name: '%s'", rev)
	}
	reason := "branch: Created from " + rev
	if old != "" {
		reason = "branch: Reset to " + rev
	}
	return c.writeRef("refs/heads/"+name, i, reason)
}

// resolveRange returns the commit of a revision, or the merge base of A...B.
func (c *call) resolveRange(rev string) (id, error) {
	a, b, ok := strings.Cut(rev, "...")
	if !ok {
		k, err := c.resolveCommit(rev)
		if err != nil {
			return "", err
		}
		return k.id, nil
	}
	one, err := c.resolveCommit(orHead(a))
	if err != nil {
		return "", err
	}
	two, err := c.resolveCommit(orHead(b))
	if err != nil {
		return "", err
	}
	bases, err := c.findMergeBases(one.id, two.id)
	if err != nil || len(bases) == 0 {
		return "", errUnknownRevision(rev)
	}
	return bases[0], nil
}

// trackStart makes a new branch follow the branch of a remote that it begins at.
func (c *call) trackStart(name, rev string) error {
	ref := c.expandRef(rev)
	if c.has("--no-track") || !strings.HasPrefix(ref, "refs/remotes/") && !(c.has("-t", "--track") && strings.HasPrefix(ref, "refs/heads/")) {
		return nil
	}
	return c.setUpstream(name, rev)
}

// setUpstream makes a branch follow another one.
func (c *call) setUpstream(branch, rev string) error {
	ref := c.expandRef(rev)
	if c.readRef("refs/heads/"+branch) == "" {
		return newFatal("branch '%s' does not exist", branch)
	}
	remote, merge := ".", ref
	if rest, ok := strings.CutPrefix(ref, "refs/remotes/"); ok {
		remote, merge = "", ""
		for _, name := range c.remotes() {
			if below, ok := strings.CutPrefix(rest, name+"/"); ok {
				remote, merge = name, "refs/heads/"+below
			}
		}
	}
	if ref == "" || merge == "" {
		return newFatal("the requested upstream branch '%s' does not exist", rev)
	}
	file := c.common + "/config"
	if err := setConfig(c.p, file, "branch."+branch+".remote", remote); err != nil {
		return err
	}
	if err := setConfig(c.p, file, "branch."+branch+".merge", merge); err != nil {
		return err
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "branch '%s' set up to track '%s'.\n", branch, shortenRef(ref)) // Flush reports the error
	}
	return nil
}

func (c *call) deleteBranches(current string) error {
	prefix := "refs/heads/"
	if c.has("-r", "--remotes") {
		prefix = "refs/remotes/"
	}
	var failed error
	for _, name := range c.args {
		i := c.readRef(prefix + name)
		switch at := c.findCheckout(name); {
		case i == "" && prefix != "refs/heads/":
			return newError("remote-tracking branch '%s' not found.", name)
		case i == "":
			return newError("branch '%s' not found.", name)
		case prefix == "refs/heads/" && at != "":
			return newError("Cannot delete branch '%s' checked out at '%s'", name, at)
		}
		_, against := c.readHead()
		if upstream := c.readRef(c.findUpstream(name)); upstream != "" {
			against = upstream
		}
		merged, err := c.isAncestor(i, against)
		if err != nil {
			return err
		}
		if !merged && !c.has("-D") && !c.has("-f", "--force") && prefix == "refs/heads/" {
			return newError("The branch '%s' is not fully merged.\nIf you are sure you want to delete it, run 'git branch -D %s'.", name, name)
		}
		if err := c.deleteRef(prefix + name); err != nil {
			return err
		}
		if prefix == "refs/heads/" {
			if _, err := editConfig(c.p, c.common+"/config", configEdit{name: "branch." + name, section: true}); err != nil {
				return err
			}
		}
		if !c.has("-q", "--quiet") {
			kind := ""
			if prefix != "refs/heads/" {
				kind = "remote-tracking "
			}
			_, _ = fmt.Fprintf(c.p.Out(), "Deleted %sbranch %s (was %s).\n", kind, name, i.short()) // Flush reports the error
		}
	}
	return failed
}

func (c *call) renameBranch(current string) error {
	if len(c.args) == 0 || !isRefName(c.args[len(c.args)-1]) {
		return newFatal("branch name required")
	}
	from, to := current, c.args[len(c.args)-1]
	if len(c.args) == 2 {
		from = c.args[0]
	}
	at := c.readRef("refs/heads/" + from)
	if at == "" && from != current {
		return newError("refname refs/heads/%s not found\nfatal: Branch rename failed", from)
	}
	if at != "" && from != to {
		if c.readRef("refs/heads/"+to) != "" && !c.has("-M") {
			return newFatal("a branch named '%s' already exists", to)
		}
		if err := c.moveBranch(from, to, at); err != nil {
			return err
		}
	}
	if from == current {
		return c.pointHead(to, "")
	}
	return nil
}

// moveBranch gives a branch another name, with its log and its upstream.
func (c *call) moveBranch(from, to string, at id) error {
	log, _ := c.p.ReadFile(c.logPath("refs/heads/" + from)) // there may be none
	remote, merge := c.conf.get("branch."+from+".remote"), c.conf.get("branch."+from+".merge")
	if err := c.deleteRef("refs/heads/" + from); err != nil {
		return err
	}
	if err := c.writeRef("refs/heads/"+to, at, ""); err != nil {
		return err
	}
	if len(log) > 0 {
		file := c.logPath("refs/heads/" + to)
		if err := c.p.MkdirAll(cutLast(file), 0o777); err != nil {
			return err
		}
		if err := c.p.WriteFile(file, log, 0o644); err != nil {
			return err
		}
		if err := c.appendLog("refs/heads/"+to, at, at, "Branch: renamed refs/heads/"+from+" to refs/heads/"+to); err != nil {
			return err
		}
	}
	file := c.common + "/config"
	if _, err := editConfig(c.p, file, configEdit{name: "branch." + from, section: true}); err != nil || remote == "" {
		return err
	}
	if err := setConfig(c.p, file, "branch."+to+".remote", remote); err != nil || merge == "" {
		return err
	}
	return setConfig(c.p, file, "branch."+to+".merge", merge)
}

// cutLast returns a path without its last name.
func cutLast(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// isAncestor reports whether a commit is another one or an ancestor of it.
func (r *repository) isAncestor(old, at id) (bool, error) {
	if at == "" {
		return false, nil
	}
	found := false
	err := r.walkHistory([]id{at}, func(k *commit) (bool, error) {
		found = k.id == old
		return !found, nil
	})
	return found, err
}
