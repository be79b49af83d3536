package git

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// logOptions are the options of commands that list commits.
const logOptions = " -n= --max-count= --skip= --oneline --format= --pretty= --pretty --graph --all --branches --tags --remotes --decorate --decorate= --no-decorate --reverse --merges --no-merges --first-parent --since= --after= --until= --before= --author= --committer= --grep= --all-match --min-parents= --max-parents= -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings --invert-grep -S= -G= --follow --topo-order --date-order --author-date-order --date= --abbrev-commit --no-abbrev-commit --left-right --cherry-pick --right-only --left-only --no-walk --root -m -c --cc --full-history --parents --count --notes --notes= --no-notes --source --no-mailmap --use-mailmap --relative-date --no-patch -s -L= -g --walk-reflogs "

// selection is the commits that a command lists.
type selection struct {
	starts, without []id
	within          []string    // paths that limit the history
	left            map[id]bool // of A...B: the commits of A
}

// logRun is a run of log or a command like it.
type logRun struct {
	*call
	selection
	f        *patch
	format   string // of a commit: oneline, short, medium, ... or user
	template string // of the format user
	ends     bool   // a line end follows each commit, instead of separating them
	date     string
	since    int64
	until    int64
	most     int
	skip     int
	parents  [2]int                // least and most; -1: any number
	patterns map[string][]*pattern // by the option
	names    map[id][]string       // decorations
	printed  int
	graph    *graph
	followed map[id][]string  // with --follow: the path of each commit
	renamed  map[id][2]string // likewise: the names of a commit that renamed it
	kept     map[id][]id      // parents that a history of paths follows
	charged  int64            // bytes, for the text of the commit that is printed
	notes    *notes           // nil: not read yet
	entry    *loggedEntry     // of the log along which -g walks
}

// newLog reads the options of a command that lists commits.
func (c *call) newLog() (*logRun, error) {
	f, err := c.newPatch("")
	if err != nil {
		return nil, err
	}
	l := &logRun{call: c, f: f, most: -1, parents: [2]int{0, -1}, date: c.flags["--date"], until: 1 << 62, since: -1 << 62, patterns: make(map[string][]*pattern)}
	if c.has("--relative-date") {
		l.date = "relative"
	}
	for _, option := range []struct {
		text string
		to   *int
	}{
		{c.flags["-n"] + c.flags["--max-count"], &l.most}, {c.flags["--skip"], &l.skip}, {c.flags["--min-parents"], &l.parents[0]},
		{c.flags["--max-parents"], &l.parents[1]},
	} {
		if option.text == "" {
			continue
		}
		if *option.to, err = strconv.Atoi(option.text); err != nil {
			return nil, newFatal("'%s': not an integer", option.text)
		}
	}
	for _, option := range []struct {
		text string
		to   *int64
	}{{c.flags["--since"] + c.flags["--after"], &l.since}, {c.flags["--until"] + c.flags["--before"], &l.until}} {
		if option.text == "" {
			continue
		}
		at, ok := c.parseDate(option.text)
		if !ok {
			return nil, newFatal("invalid date: '%s' (write it as 2024-12-31, 2024-12-31T23:59:59, '2 weeks ago' or in seconds)", option.text)
		}
		*option.to = at.Unix()
	}
	if err := l.readFormat(); err != nil {
		return nil, err
	}
	return l, l.readPatterns()
}

// readFormat reads --format, --pretty and --oneline.
func (l *logRun) readFormat() error {
	format, given := l.flags["--format"]
	if !given {
		format = l.flags["--pretty"]
	}
	if l.has("--oneline") {
		format = "oneline"
		l.flags["--abbrev-commit"] = ""
	}
	if format == "" && given {
		l.format = "user"
		return nil
	}
	if format == "" {
		format = orDefault(l.conf.get("format.pretty"), "medium")
	}
	l.format, l.ends = format, true
	if named, ok := l.conf.lookup("pretty." + format); ok {
		format = named
	}
	if rest, ok := strings.CutPrefix(format, "format:"); ok {
		l.format, l.template, l.ends = "user", rest, false
	} else if rest, ok := strings.CutPrefix(format, "tformat:"); ok {
		l.format, l.template = "user", rest
	} else if strings.Contains(format, "%") {
		l.format, l.template = "user", format
	}
	switch l.format {
	case "short", "medium", "full", "fuller", "raw", "email":
		l.ends = false
	case "oneline", "user":
	case "reference":
		l.format, l.template, l.date = "user", "%h (%s, %ad)", orDefault(l.date, "short")
	default:
		return newFatal("invalid --pretty format: %s", l.format)
	}
	return nil
}

// readPatterns compiles the patterns of --author, --grep and so on.
func (l *logRun) readPatterns() error {
	o := regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Newline: true, IgnoreCase: l.has("-i", "--regexp-ignore-case")}
	if l.has("-E", "--extended-regexp") {
		o.Syntax = regex.ERE
	} else if l.has("-F", "--fixed-strings") {
		o.Syntax = regex.Fixed
	}
	for _, option := range []string{"--author", "--committer", "--grep", "-G"} {
		for _, text := range l.values[option] {
			m, err := l.compilePattern(text, o)
			if err != nil {
				return err
			}
			l.patterns[option] = append(l.patterns[option], m)
		}
	}
	return nil
}

// matchesAny reports whether a text has a match of one of the patterns of an option; without patterns it has.
func (l *logRun) matchesAny(option, text string) bool {
	list := l.patterns[option]
	return len(list) == 0 || slices.ContainsFunc(list, func(m *pattern) bool { return m.matches([]byte(text)) })
}

// accepts reports whether the options that look at a commit alone select it.
func (l *logRun) accepts(k *commit) bool {
	if l.has("--no-merges") && len(k.parents) > 1 || l.has("--merges") && len(k.parents) < 2 {
		return false
	}
	if len(k.parents) < l.parents[0] || l.parents[1] >= 0 && len(k.parents) > l.parents[1] {
		return false
	}
	at := k.commitTime()
	if at > l.until || at < l.since {
		return false
	}
	if l.has("--cherry-pick", "--right-only") && l.left[k.id] || l.has("--left-only") && !l.left[k.id] {
		return false
	}
	return l.matchesAny("--author", cutBefore(k.author, "> ")+">") && l.matchesAny("--committer", cutBefore(k.committer, "> ")+">") &&
		l.matchesMessage(k.message) != (l.has("--invert-grep") && len(l.patterns["--grep"]) > 0)
}

// matchesMessage reports whether a message has a match of one of the patterns of --grep; with --all-match, of each.
func (l *logRun) matchesMessage(message string) bool {
	if !l.has("--all-match") {
		return l.matchesAny("--grep", message)
	}
	return !slices.ContainsFunc(l.patterns["--grep"], func(m *pattern) bool { return !m.matches([]byte(message)) })
}

// printLog prints commits, newest first.
func (c *call) printLog() error {
	l, err := c.newLog()
	if err != nil {
		return err
	}
	if c.has("-g", "--walk-reflogs") {
		return c.printReflog()
	}
	if l.selection, err = c.readSelection(c.args, c.paths, true); err != nil {
		return err
	}
	if text := c.flags["-L"]; text != "" {
		return newFatal("git log -L is not supported here; use git log -p -- FILE, or git blame -L")
	}
	if c.has("--graph") {
		l.graph = newGraph(c.p)
	}
	list, err := l.collect()
	if err != nil {
		return err
	}
	if c.has("--count") {
		_, _ = fmt.Fprintln(c.p.Out(), len(list)) // Flush reports the error
		return nil
	}
	for _, k := range list {
		if err := l.printCommit(k, false); err != nil {
			return err
		}
	}
	return nil
}

// printWhatChanged is git whatchanged: git log --raw without merges.
func (c *call) printWhatChanged() error {
	f, err := c.newPatch("")
	if err != nil {
		return err
	}
	if !f.hasFormat() {
		c.setFlag("--raw", "")
	}
	c.setFlag("--no-merges", "")
	return c.printLog()
}

// collect returns the selected commits in the order in which they are printed.
func (l *logRun) collect() ([]*commit, error) {
	hidden, err := l.collectAncestors(l.without)
	if err != nil {
		return nil, err
	}
	var list []*commit
	all := l.has("--topo-order", "--graph", "--date-order", "--author-date-order")
	follow := ""
	l.followed, l.renamed, l.kept = make(map[id][]string), make(map[id][2]string), make(map[id][]id)
	if l.has("--follow") && len(l.within) == 1 {
		follow = l.within[0]
	}
	err = l.walkSelected(l.starts, hidden, func(k *commit) ([]id, bool, error) {
		if k.commitTime() < l.since {
			return nil, true, nil
		}
		shown, kept, err := l.simplify(k, l.parentsToFollow(k))
		if err != nil {
			return nil, false, err
		}
		if follow != "" {
			l.followed[k.id] = slices.Clone(l.within)
		}
		if l.graph != nil {
			l.p.Alloc(96)
			l.kept[k.id] = kept
		}
		if shown && l.accepts(k) {
			if shown, err = l.touches(k); err != nil {
				return nil, false, err
			}
			if shown {
				l.p.Alloc(16)
				list = append(list, k)
			}
		}
		if follow != "" {
			if err := l.followRename(k); err != nil {
				return nil, false, err
			}
		}
		return kept, all || l.has("--reverse") || l.most < 0 || len(list) < l.most+l.skip, nil
	})
	if err != nil {
		return nil, err
	}
	if l.graph != nil {
		l.rewriteParents(list)
	}
	if all && !l.has("--date-order", "--author-date-order") {
		list = l.sortTopologically(list)
	}
	return l.limit(list), nil
}

// limit applies --skip, --max-count and --reverse.
func (l *logRun) limit(list []*commit) []*commit {
	list = list[min(l.skip, len(list)):]
	if l.most >= 0 {
		list = list[:min(l.most, len(list))]
	}
	if l.has("--reverse") {
		slices.Reverse(list)
	}
	return list
}

// parentsToFollow returns the parents that the options let the history go on with.
func (l *logRun) parentsToFollow(k *commit) []id {
	switch {
	case l.has("--no-walk"):
		return nil
	case l.has("--first-parent"):
		return k.parents[:min(1, len(k.parents))]
	}
	return k.parents
}

// rewriteParents tells the graph the parents of each printed commit among the printed ones.
func (l *logRun) rewriteParents(list []*commit) {
	l.graph.shown, l.graph.rewritten = make(map[id]bool), make(map[id][]id)
	for _, k := range list {
		l.graph.shown[k.id] = true
	}
	if len(l.within) == 0 {
		return
	}
	for _, k := range list {
		var parents []id
		for _, parent := range l.kept[k.id] {
			for !l.graph.shown[parent] && len(l.kept[parent]) > 0 {
				l.p.Tick(1)
				parent = l.kept[parent][0]
			}
			parents = append(parents, parent)
		}
		l.graph.rewritten[k.id] = parents
	}
}

// simplify reports whether a commit changes the paths, and returns the parents that its history follows: a
// merge that has the paths of one parent follows only this one.
func (l *logRun) simplify(k *commit, parents []id) (bool, []id, error) {
	if len(l.within) == 0 {
		return true, parents, nil
	}
	if len(k.parents) == 0 {
		same, err := l.equalPaths("", k.tree)
		return !same, nil, err
	}
	for _, parent := range parents {
		same, err := l.equalPaths(parent, k.tree)
		if err != nil {
			return false, nil, err
		}
		if same {
			if l.has("--full-history") {
				return false, parents, nil
			}
			return false, []id{parent}, nil
		}
	}
	return true, parents, nil
}

// equalPaths reports whether two trees have the same content below the paths.
func (l *logRun) equalPaths(old, new id) (bool, error) {
	if slices.ContainsFunc(l.within, func(p string) bool { return strings.ContainsAny(p, "*?[") || strings.HasPrefix(p, ":!") }) {
		mark := l.p.Charged()
		list, err := l.compareRevisions(old, new)
		same := !slices.ContainsFunc(list, func(ch change) bool { return selects(l.p, l.within, ch.name) })
		l.p.Free(l.p.Charged() - mark)
		return same, err
	}
	for _, name := range l.within {
		var sides [2]treeEntry
		for n, tree := range []id{old, new} {
			if tree == "" {
				continue
			}
			e, _, err := l.findInTree(tree, name)
			if err != nil {
				return false, err
			}
			sides[n] = e
		}
		if sides[0] != sides[1] {
			return false, nil
		}
	}
	return true, nil
}

// touches reports whether a commit changes lines or counts of the text of -G and -S.
func (l *logRun) touches(k *commit) (bool, error) {
	text, pickaxe := l.flags["-S"]
	if !pickaxe && len(l.patterns["-G"]) == 0 {
		if !l.has("--diff-filter") {
			return true, nil
		}
		list, err := l.filteredChanges(k)
		return len(list) > 0, err
	}
	list, err := l.changesOf(k)
	if err != nil || len(k.parents) > 1 {
		return false, err
	}
	for _, ch := range list {
		if !selects(l.p, l.within, ch.name) {
			continue
		}
		old, new, a, b, edits, _, err := l.f.readBoth(ch)
		if err != nil {
			return false, err
		}
		if pickaxe && bytes.Count(old, []byte(text)) != bytes.Count(new, []byte(text)) {
			return true, nil
		}
		for _, e := range edits {
			for _, line := range append(slices.Clone(a[e.a0:e.a1]), b[e.b0:e.b1]...) {
				if len(l.patterns["-G"]) > 0 && l.matchesAny("-G", string(line)) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// followRename goes on with the old name of the path, if a commit renamed it.
func (l *logRun) followRename(k *commit) error {
	list, err := l.changesOf(k)
	if err != nil || !slices.ContainsFunc(list, func(ch change) bool { return ch.name == l.within[0] && ch.old.mode == 0 }) {
		return err
	}
	list, err = l.findRenames(list, cmp.Or(l.f.similar, leastSimilar), func(ch change) ([]byte, error) { return l.f.readSide(ch.name, ch.new, false) })
	for _, ch := range list {
		if ch.name == l.within[0] && ch.from != "" {
			l.renamed[k.id] = [2]string{ch.from, ch.name}
			l.within = []string{ch.from}
		}
	}
	return err
}

// readSelection sorts operands into revisions, ranges and paths. Without revisions it is HEAD, if head is set.
func (c *call) readSelection(args, paths []string, head bool) (selection, error) {
	var s selection
	for len(args) > 0 {
		a := args[0]
		if strings.HasPrefix(a, "^") && len(a) > 1 {
			at, err := c.resolveRevision(a[1:])
			if err != nil {
				return s, err
			}
			s.without, args = append(s.without, at), args[1:]
			continue
		}
		ok, err := c.addRange(&s, a)
		if err != nil {
			return s, err
		}
		if ok {
			args = args[1:]
			continue
		}
		at, err := c.resolveRevision(a)
		if err != nil {
			if _, serr := c.p.Lstat(a); serr == nil && !c.split || strings.ContainsAny(a, "*?[") && !c.split {
				break
			}
			return s, err
		}
		s.starts, args = append(s.starts, at), args[1:]
	}
	for option, prefix := range map[string]string{"--all": "refs/", "--branches": "refs/heads/", "--tags": "refs/tags/", "--remotes": "refs/remotes/"} {
		if !c.has(option) {
			continue
		}
		head = false
		if _, at := c.readHead(); at != "" && option == "--all" {
			s.starts = append(s.starts, at)
		}
		for _, name := range c.listRefs(prefix) {
			i := c.peelTag(c.readRef(prefix + name))
			if kind, err := c.readKind(i); err == nil && kind == "commit" {
				s.starts = append(s.starts, i)
			}
		}
	}
	if branch, at := c.readHead(); len(s.starts) == 0 && head {
		if at == "" {
			return s, newFatal("your current branch '%s' does not have any commits yet", branch)
		}
		s.starts = []id{at}
	}
	var err error
	s.within, err = c.relativePaths(append(slices.Clone(args), paths...))
	return s, err
}

// addRange adds A..B, A...B, REV^!, REV^@ or REV^- to a selection; ok is false for another operand.
func (c *call) addRange(s *selection, a string) (ok bool, err error) {
	for suffix, with := range map[string]bool{"^!": true, "^@": false, "^-": true} {
		rev, found := strings.CutSuffix(a, suffix)
		if !found {
			continue
		}
		k, err := c.resolveCommit(rev)
		switch {
		case err != nil:
			return false, err
		case with:
			s.starts, s.without = append(s.starts, k.id), append(s.without, k.parents...)
		default:
			s.starts = append(s.starts, k.parents...)
		}
		return true, nil
	}
	from, to, both := strings.Cut(a, "...")
	if !both {
		from, to, ok = strings.Cut(a, "..")
		if !ok || a == ".." || strings.HasPrefix(a, "../") || strings.Contains(a, "/../") {
			return false, nil
		}
	}
	one, err := c.resolveRevision(orHead(from))
	if err != nil {
		return false, errUnknownRevision(a)
	}
	two, err := c.resolveRevision(orHead(to))
	if err != nil {
		return false, errUnknownRevision(a)
	}
	s.starts = append(s.starts, two)
	if !both {
		s.without = append(s.without, one)
		return true, nil
	}
	bases, err := c.findMergeBases(one, two)
	s.starts, s.without = append([]id{one}, s.starts...), append(s.without, bases...)
	if err == nil {
		s.left = make(map[id]bool)
		err = c.walkRange([]id{one}, []id{two}, func(k *commit) (bool, error) { s.left[k.id] = true; return true, nil })
	}
	return true, err
}
