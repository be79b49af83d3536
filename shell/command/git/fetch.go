package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fetchedRef is a ref that a fetch brings, and the ref that follows it here.
type fetchedRef struct {
	remoteRef
	to    string
	force bool
	merge bool // named by the command or the upstream of the current branch
}

// fetchRemotes is git fetch.
func (c *call) fetchRemotes() error {
	if c.has("--all") {
		for _, name := range c.remotes() {
			if !c.has("-q", "--quiet") {
				_, _ = fmt.Fprintf(c.p.Out(), "Fetching %s\n", name) // Flush reports the error
			}
			if err := c.with(c.flags, []string{name}).fetchRemote(); err != nil {
				return err
			}
		}
		return nil
	}
	return c.fetchRemote()
}

// defaultRemote returns the remote of the current branch, or origin.
func (c *call) defaultRemote() string {
	branch, _ := c.readHead()
	if name := c.conf.get("branch." + branch + ".remote"); name != "" && name != "." {
		return name
	}
	if list := c.remotes(); len(list) == 1 {
		return list[0]
	}
	return "origin"
}

// fetchRemote fetches from one remote.
func (c *call) fetchRemote() error {
	name, specs := c.defaultRemote(), []string(nil)
	if len(c.args) > 0 {
		name, specs = c.args[0], c.args[1:]
	}
	url := c.remoteURL(name, false)
	t, err := openTransport(c.p, c.conf, url)
	if err != nil {
		return err
	}
	refs, err := t.listRefs(false)
	if err != nil {
		return err
	}
	refs = dropBadRefs(refs)
	list, err := c.selectFetched(name, refs, specs)
	if err != nil {
		return err
	}
	depth, err := c.readDepth()
	if err != nil {
		return err
	}
	var wants []id
	for _, ref := range list {
		if depth > 0 || !c.hasObject(ref.id) {
			wants = append(wants, ref.id)
		}
	}
	if len(wants) > 0 {
		if err := t.fetch(c.repository, wants, depth); err != nil {
			return err
		}
	}
	if !c.has("--no-tags") && !c.has("-t", "--tags") {
		list = c.addFollowedTags(list, refs)
	}
	return c.storeFetched(name, url, list, refs)
}

// dropBadRefs removes refs whose names are not valid: they must not become files.
func dropBadRefs(refs []remoteRef) []remoteRef {
	return slices.DeleteFunc(refs, func(ref remoteRef) bool {
		below, ok := strings.CutPrefix(ref.name, "refs/")
		return ref.name != "HEAD" && (!ok || !isRefName(below)) || ref.id != "" && !ref.id.isValid()
	})
}

// readDepth returns the number of --depth, 0 without it.
func (c *call) readDepth() (int, error) {
	text, ok := c.flags["--depth"]
	if c.has("--unshallow") {
		if len(c.readShallow()) == 0 {
			return 0, newFatal("--unshallow on a complete repository does not make sense")
		}
		return infiniteDepth, nil
	}
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, newFatal("depth %s is not a positive number", text)
	}
	return n, nil
}

// selectFetched returns the refs to fetch: those of the operands, or those of the remote's refspecs.
func (c *call) selectFetched(name string, refs []remoteRef, specs []string) ([]fetchedRef, error) {
	configured := c.conf.all("remote." + name + ".fetch")
	branch, _ := c.readHead()
	merge := ""
	if c.conf.get("branch."+branch+".remote") == name {
		merge = c.conf.get("branch." + branch + ".merge")
	}
	var list []fetchedRef
	for _, spec := range specs {
		plain, force := strings.CutPrefix(spec, "+")
		from, to, _ := strings.Cut(plain, ":")
		if strings.Contains(from, "*") {
			configured = append(configured, spec)
			continue
		}
		ref := findRemoteRef(refs, orDefault(from, "HEAD"))
		if ref == nil {
			return nil, newFatal("couldn't find remote ref %s", from)
		}
		if to != "" && !strings.HasPrefix(to, "refs/") {
			to = "refs/heads/" + to
		}
		list = append(list, fetchedRef{*ref, to, force, true})
		for _, known := range configured {
			if other := mapRefspec(known, ref.name); other != "" && other != to {
				list = append(list, fetchedRef{*ref, other, true, false})
			}
		}
	}
	if len(specs) == 0 && len(configured) == 0 {
		ref := findRemoteRef(refs, "HEAD")
		if ref == nil {
			return nil, newFatal("couldn't find remote ref HEAD")
		}
		return []fetchedRef{{*ref, "", false, true}}, nil
	}
	if c.has("-t", "--tags") {
		configured = append(configured, "refs/tags/*:refs/tags/*")
	}
	if len(specs) > 0 && !c.has("-t", "--tags") {
		return list, nil
	}
	for _, spec := range configured {
		for _, ref := range refs {
			c.p.Tick(1)
			if to := mapRefspec(spec, ref.name); to != "" && ref.id != "" {
				c.p.Alloc(200)
				list = append(list, fetchedRef{ref, to, strings.HasPrefix(spec, "+"), ref.name == merge})
			}
		}
	}
	return list, nil
}

// findRemoteRef returns the ref that a name means, or nil.
func findRemoteRef(refs []remoteRef, name string) *remoteRef {
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/"} {
		for n := range refs {
			if refs[n].name == prefix+name && refs[n].id != "" {
				return &refs[n]
			}
		}
	}
	return nil
}

// addFollowedTags adds the tags whose commits are here.
func (c *call) addFollowedTags(list []fetchedRef, refs []remoteRef) []fetchedRef {
	if !slices.ContainsFunc(list, func(ref fetchedRef) bool { return ref.to != "" }) {
		return list
	}
	for _, ref := range refs {
		target := ref.id
		if ref.peeled != "" {
			target = ref.peeled
		}
		if strings.HasPrefix(ref.name, "refs/tags/") && isRefName(ref.name[5:]) && c.readRef(ref.name) == "" && c.hasObject(ref.id) && c.hasObject(target) {
			list = append(list, fetchedRef{ref, ref.name, false, false})
		}
	}
	return list
}

// storeFetched updates refs, writes FETCH_HEAD and prints what changed.
func (c *call) storeFetched(name, url string, list []fetchedRef, refs []remoteRef) error {
	lines := &updateLines{c: c, title: "From " + shownURL(url), width: 10}
	for _, ref := range list {
		lines.width = max(lines.width, len(shortenRef(ref.name)))
	}
	if c.has("-p", "--prune") || c.conf.isTrue("fetch.prune") {
		if err := c.pruneRefs(name, refs, lines); err != nil {
			return err
		}
	}
	var forMerge, rest strings.Builder
	var failed error
	for _, ref := range list {
		if !c.hasObject(ref.id) || strings.Contains(ref.name, "..") {
			return newFatal("%s: the remote did not send object %s", ref.name, ref.id)
		}
		kind := ""
		if head, ok := strings.CutPrefix(ref.name, "refs/heads/"); ok {
			kind = "branch '" + head + "' of "
		} else if tag, ok := strings.CutPrefix(ref.name, "refs/tags/"); ok {
			kind = "tag '" + tag + "' of "
		}
		line := func(note string) string { return fmt.Sprintf("%s\t%s\t%s%s\n", ref.id, note, kind, shownURL(url)) }
		if ref.merge {
			forMerge.WriteString(line(""))
		} else if !strings.HasPrefix(ref.name, "refs/tags/") && !slices.ContainsFunc(list, func(other fetchedRef) bool { return other.merge && other.name == ref.name }) {
			rest.WriteString(line("not-for-merge"))
		}
		if err := c.updateFetched(ref, lines); err != nil {
			failed = err
		}
	}
	if err := c.writeGitFile("FETCH_HEAD", forMerge.String()+rest.String()); err != nil {
		return err
	}
	return failed
}

// updateFetched moves the ref that follows a fetched one.
func (c *call) updateFetched(ref fetchedRef, lines *updateLines) error {
	from, to := shortenRef(ref.name), shortenRef(ref.to)
	kind := "branch"
	if strings.HasPrefix(ref.name, "refs/tags/") {
		kind = "tag"
	}
	if ref.to == "" {
		lines.add('*', kind, from, "FETCH_HEAD", "")
		return nil
	}
	old := c.readRef(ref.to)
	switch {
	case old == ref.id:
		if c.has("-v", "--verbose") {
			lines.add('=', "[up to date]", from, to, "")
		}
		return nil
	case old == "":
		what, act := "[new branch]", "storing head"
		if kind == "tag" {
			what, act = "[new tag]", ""
		} else if ref.name == "HEAD" || !strings.HasPrefix(ref.name, "refs/heads/") {
			what, act = "[new ref]", "storing ref"
		}
		lines.add('*', what, from, to, "")
		return c.writeRef(ref.to, ref.id, prefixReason("fetch", act))
	case kind == "tag" && strings.HasPrefix(ref.to, "refs/tags/"):
		if !ref.force && !c.has("-f", "--force") {
			lines.add('!', "[rejected]", from, to, "would clobber existing tag")
			return &failure{1, ""}
		}
		lines.add('t', "[tag update]", from, to, "")
		return c.writeRef(ref.to, ref.id, "")
	}
	if branch, ok := strings.CutPrefix(ref.to, "refs/heads/"); ok && c.findCheckout(branch) != "" && !c.has("-u", "--update-head-ok") {
		return newFatal("refusing to fetch into branch '%s' checked out at '%s'", ref.to, c.findCheckout(branch))
	}
	forward, err := c.isAncestor(old, ref.id)
	if err != nil {
		return err
	}
	switch {
	case forward:
		lines.add(' ', old.short()+".."+ref.id.short(), from, to, "")
		return c.writeRef(ref.to, ref.id, "fetch: fast-forward")
	case ref.force || c.has("-f", "--force"):
		lines.add('+', old.short()+"..."+ref.id.short(), from, to, "forced update")
		return c.writeRef(ref.to, ref.id, "fetch: forced-update")
	}
	lines.add('!', "[rejected]", from, to, "non-fast-forward")
	return &failure{1, ""}
}

func prefixReason(verb, act string) string {
	if act == "" {
		return ""
	}
	return verb + ": " + act
}

// pruneRefs removes refs that follow refs which the remote does not have any more.
func (c *call) pruneRefs(name string, refs []remoteRef, lines *updateLines) error {
	alive := make(map[string]bool)
	prefixes := make(map[string]bool)
	for _, spec := range c.conf.all("remote." + name + ".fetch") {
		for _, ref := range refs {
			if to := mapRefspec(spec, ref.name); to != "" {
				alive[to] = true
			}
		}
		if _, to, ok := strings.Cut(spec, ":"); ok && strings.HasSuffix(to, "/*") {
			prefixes[strings.TrimSuffix(to, "*")] = true
		}
	}
	for _, prefix := range sortedKeys(prefixes) {
		for _, below := range c.listRefs(prefix) {
			if ref := prefix + below; !alive[ref] && below != "HEAD" {
				lines.add('-', "[deleted]", "(none)", shortenRef(ref), "")
				if err := c.deleteRef(ref); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// updateLines prints the lines about changed refs, after a title.
type updateLines struct {
	c       *call
	title   string
	width   int
	started bool
}

func (u *updateLines) add(flag byte, what, from, to, note string) {
	if u.c.has("-q", "--quiet") {
		return
	}
	if !u.started {
		_ = u.c.printMessage("%s", u.title)
		u.started = true
	}
	line := fmt.Sprintf(" %c %-17s %-*s -> %s", flag, what, u.width, from, to)
	if note != "" {
		line += "  (" + note + ")"
	}
	_ = u.c.printMessage("%s", line)
}
