package git

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// pattern is a compiled regular expression with the process that pays for its matches.
type pattern struct {
	p  *kernel.Proc
	re *regex.Regexp
}

// compilePattern compiles a regular expression.
func (r *repository) compilePattern(text string, o regex.Options) (*pattern, error) {
	o.Budget = r.p
	re, err := regex.Compile(text, o)
	if err != nil {
		return nil, newFatal("command line, '%s': %s", text, err)
	}
	return &pattern{r.p, re}, nil
}

// matches reports whether a text contains a match.
func (m *pattern) matches(text []byte) bool {
	return m.re.Match(text, 0, nil, m.p)
}

// errUnknownRevision returns the error for an operand that is neither a revision nor a file.
func errUnknownRevision(rev string) error {
	return newFatal("ambiguous argument '%s': unknown revision or path not in the working tree.\nUse '--' to separate paths from revisions, like this:\n'git <command> [<revision>...] -- [<file>...]'", rev)
}

// resolveRevision returns the commit that a revision names, or the tree or blob if it does not name a commit.
func (r *repository) resolveRevision(rev string) (id, error) {
	i, err := r.resolveObject(rev)
	if err != nil {
		return "", err
	}
	return r.peelTag(i), nil
}

// resolveCommit returns the commit that a revision names.
func (r *repository) resolveCommit(rev string) (*commit, error) {
	i, err := r.resolveRevision(rev)
	if err != nil {
		return nil, err
	}
	return r.readCommit(i)
}

// resolveObject returns the object that a revision names: HEAD, a ref, an abbreviated name, REV~N, REV^N,
// REV^{KIND}, REF@{N}, BRANCH@{upstream}, @{-N}, REV:PATH, :PATH, :/TEXT.
func (r *repository) resolveObject(rev string) (id, error) {
	bad := errUnknownRevision(rev)
	if text, ok := strings.CutPrefix(rev, ":/"); ok {
		return r.findMessage(text, bad)
	}
	if at, name, ok := strings.Cut(rev, ":"); ok && !strings.Contains(at, "{") {
		return r.resolvePath(at, name, rev)
	}
	base := rev
	if i := strings.IndexAny(rev, "~^"); i >= 0 {
		base = rev[:i]
	}
	at := r.resolveName(base)
	if at == "" {
		return "", bad
	}
	for rest := rev[len(base):]; rest != ""; {
		var err error
		if kind, after, ok := strings.Cut(rest, "}"); ok && strings.HasPrefix(kind, "^{") {
			if at, err = r.peelTo(at, kind[2:], bad); err != nil {
				return "", err
			}
			rest = after
			continue
		}
		digits := 1
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n := 1
		if digits > 1 {
			if n, err = strconv.Atoi(rest[1:digits]); err != nil {
				return "", bad
			}
		}
		if rest[0] != '~' && rest[0] != '^' {
			return "", bad
		}
		if at, err = r.followParents(at, rest[0], n, bad); err != nil {
			return "", err
		}
		rest = rest[digits:]
	}
	return at, nil
}

// followParents returns the n-th parent (^) or the n-th ancestor along first parents (~).
func (r *repository) followParents(at id, op byte, n int, bad error) (id, error) {
	if op == '^' && n > 0 {
		c, err := r.readCommit(at)
		if err != nil || n > len(c.parents) {
			return "", bad
		}
		return c.parents[n-1], nil
	}
	if op == '^' {
		n = 0
	}
	at = r.peelTag(at)
	for range n {
		r.p.Tick(1)
		c, err := r.readCommit(at)
		if err != nil || len(c.parents) == 0 {
			return "", bad
		}
		at = c.parents[0]
	}
	return at, nil
}

// peelTo returns the object of a kind that another object names.
func (r *repository) peelTo(at id, kind string, bad error) (id, error) {
	if text, ok := strings.CutPrefix(kind, "/"); ok {
		return r.findMessageFrom([]id{at}, text, bad)
	}
	if kind == "tag" || kind == "object" {
		return at, nil
	}
	at = r.peelTag(at)
	has, err := r.readKind(at)
	switch {
	case err != nil:
		return "", err
	case kind == "" || kind == has:
		return at, nil
	case kind == "tree" && has == "commit":
		c, err := r.readCommit(at)
		if err != nil {
			return "", err
		}
		return c.tree, nil
	}
	return "", bad
}

// resolvePath returns the object of a path in a revision, or in the index if the revision is "".
func (r *repository) resolvePath(rev, name, whole string) (id, error) {
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		c := &call{repository: r}
		below, err := c.relativePath(name)
		if err != nil {
			return "", err
		}
		name = below
	}
	if rev == "" {
		return r.resolveIndexPath(name)
	}
	at, err := r.resolveRevision(rev)
	if err != nil {
		return "", newFatal("invalid object name '%s'.", rev)
	}
	e, ok, err := r.findInTree(at, name)
	if err != nil {
		return "", err
	}
	if !ok {
		if _, err := r.p.Lstat(r.root + "/" + name); err == nil && r.root != "" {
			return "", newFatal("path '%s' exists on disk, but not in '%s'", name, rev)
		}
		return "", newFatal("path '%s' does not exist in '%s'", name, rev)
	}
	return e.id, nil
}

// resolveIndexPath returns the object of [N:]PATH in the index.
func (r *repository) resolveIndexPath(name string) (id, error) {
	x, err := r.readIndex()
	if err != nil {
		return "", err
	}
	stage := 0
	if len(name) > 1 && name[1] == ':' && name[0] >= '0' && name[0] <= '3' {
		stage, name = int(name[0]-'0'), name[2:]
	}
	e := x[name].treeEntry
	if stage > 0 {
		e = r.conflicts[name][stage-1]
	}
	if e.mode == 0 {
		return "", newFatal("path '%s' is not in the index", name)
	}
	return e.id, nil
}

// findInTree returns the entry of a path in a tree; "" is the tree itself.
func (r *repository) findInTree(at id, name string) (treeEntry, bool, error) {
	name = strings.Trim(name, "/")
	tree, err := r.peelTo(at, "tree", newFatal("not a tree object: %s", at))
	if err != nil {
		return treeEntry{}, false, err
	}
	e := treeEntry{modeTree, tree}
	if name == "" {
		return e, true, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if e.mode != modeTree {
			return treeEntry{}, false, nil
		}
		mark := r.p.Charged()
		items, err := r.readTreeItems(e.id)
		if err != nil {
			return treeEntry{}, false, err
		}
		found := false
		for _, it := range items {
			if it.name == part {
				e, found = it.treeEntry, true
			}
		}
		r.p.Free(r.p.Charged() - mark)
		if !found {
			return treeEntry{}, false, nil
		}
	}
	return e, true, nil
}

// expandRef returns the full name of a ref that a short name means, or "".
func (r *repository) expandRef(name string) string {
	if name == "HEAD" || name == "@" {
		return "HEAD"
	}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if prefix == "" && !strings.HasPrefix(name, "refs/") && !strings.HasSuffix(name, "_HEAD") {
			continue
		}
		if r.readRef(prefix+name) != "" {
			return prefix + name
		}
	}
	if name != "" && r.readRef("refs/remotes/"+name+"/HEAD") != "" {
		return "refs/remotes/" + name + "/HEAD"
	}
	return ""
}

func (r *repository) resolveName(name string) id {
	if base, inner, ok := strings.Cut(name, "@{"); ok {
		return r.resolveLogged(base, strings.TrimSuffix(inner, "}"))
	}
	if name == "-" {
		return r.resolveLogged("", "-1")
	}
	if ref := r.expandRef(name); ref != "" {
		return r.readRef(ref)
	}
	if i := strings.LastIndex(name, "-g"); i > 0 && r.isAbbreviation(name[i+2:]) {
		name = name[i+2:] // as describe prints it
	}
	if !r.isAbbreviation(name) {
		return ""
	}
	return r.completeID(name)
}

func (r *repository) isAbbreviation(name string) bool {
	return len(name) >= 4 && len(name) <= 40 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == ""
}

// completeID returns the only object whose name begins with a prefix, or "".
func (r *repository) completeID(prefix string) id {
	prefix = strings.ToLower(prefix)
	if len(prefix) == 40 {
		if r.hasObject(id(prefix)) {
			return id(prefix)
		}
		return ""
	}
	found := make(map[id]bool)
	for _, dir := range r.objectDirs() {
		list, _ := r.p.ReadDir(dir + "/" + prefix[:2]) // a missing directory has none
		for _, e := range list {
			r.p.Tick(1)
			if strings.HasPrefix(e.Name(), prefix[2:]) {
				found[id(prefix[:2]+e.Name())] = true
			}
		}
	}
	for _, i := range r.findPackedPrefix(prefix) {
		found[i] = true
	}
	if len(found) > 1 {
		for i := range found {
			if kind, err := r.readKind(i); err != nil || kind != "commit" {
				delete(found, i)
			}
		}
	}
	if len(found) != 1 {
		return ""
	}
	for i := range found {
		return i
	}
	return ""
}

// resolveLogged returns the commit of REF@{N}, BRANCH@{upstream} and @{-N}.
func (r *repository) resolveLogged(base, inner string) id {
	switch strings.ToLower(inner) {
	case "u", "upstream", "push":
		if base == "" {
			base, _ = r.readHead()
		}
		return r.readRef(r.findUpstream(base))
	}
	n, err := strconv.Atoi(inner)
	if err != nil {
		return ""
	}
	if n < 0 {
		if name := r.findPrevious(-n); name != "" {
			return r.resolveName(name)
		}
		return ""
	}
	ref := "HEAD"
	if base == "" {
		if branch, _ := r.readHead(); branch != "" {
			ref = "refs/heads/" + branch
		}
	} else if ref = r.expandRef(base); ref == "" {
		return ""
	}
	list := r.readLog(ref)
	if n < len(list) {
		return list[n].new
	}
	if n == len(list) && n > 0 && list[n-1].old != zeroID {
		return list[n-1].old
	}
	if n == 0 {
		return r.readRef(ref)
	}
	return ""
}

// findPrevious returns the branch or commit that was checked out before the n-th last switch.
func (r *repository) findPrevious(n int) string {
	for _, e := range r.readLog("HEAD") {
		if move, ok := strings.CutPrefix(e.reason, "checkout: moving from "); ok {
			if n--; n == 0 {
				return cutBefore(move, " to ")
			}
		}
	}
	return ""
}

// findUpstream returns the ref that a branch follows, or "".
func (r *repository) findUpstream(branch string) string {
	remote, merge := r.conf.get("branch."+branch+".remote"), r.conf.get("branch."+branch+".merge")
	if remote == "" || merge == "" {
		return ""
	}
	if remote == "." {
		return merge
	}
	for _, spec := range r.conf.all("remote." + remote + ".fetch") {
		if to := mapRefspec(spec, merge); to != "" {
			return to
		}
	}
	return ""
}

// mapRefspec returns the ref to which a refspec maps another one, or "".
func mapRefspec(spec, ref string) string {
	from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
	if !ok {
		return ""
	}
	head, tail, wild := strings.Cut(from, "*")
	if !wild {
		if from == ref {
			return to
		}
		return ""
	}
	rest, ok := strings.CutPrefix(ref, head)
	if !ok || !strings.HasSuffix(rest, tail) {
		return ""
	}
	return strings.Replace(to, "*", strings.TrimSuffix(rest, tail), 1)
}

// findMessage returns the newest commit of any ref whose message matches a regular expression.
func (r *repository) findMessage(text string, bad error) (id, error) {
	_, at := r.readHead()
	starts := []id{at}
	for _, name := range r.listRefs("refs/") {
		starts = append(starts, r.peelTag(r.readRef("refs/"+name)))
	}
	return r.findMessageFrom(starts, text, bad)
}

func (r *repository) findMessageFrom(starts []id, text string, bad error) (id, error) {
	match, err := r.compilePattern(text, regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Newline: true})
	if err != nil {
		return "", err
	}
	found := id("")
	err = r.walkHistory(starts, func(k *commit) (bool, error) {
		if match.matches([]byte(k.message)) {
			found = k.id
		}
		return found == "", nil
	})
	if err == nil && found == "" {
		err = bad
	}
	return found, err
}
