package git

import (
	"fmt"
	"slices"
	"strings"
)

// cloneRepository is git clone.
func (c *call) cloneRepository() error {
	if len(c.args) == 0 {
		return &failure{129, "fatal: You must specify a repository to clone."}
	}
	url := c.args[0]
	if !strings.Contains(url, "://") && !strings.Contains(cutBefore(url, "/"), ":") {
		url = c.p.Path(url)
		if relative := c.args[0]; !strings.HasPrefix(relative, "/") {
			url = strings.TrimSuffix(c.p.Dir(), "/") + "/" + relative
		}
	}
	dir := directoryOf(c.args[0])
	bare := c.has("--bare", "--mirror")
	if bare {
		dir += ".git"
	}
	if len(c.args) > 1 {
		dir = c.args[1]
	}
	if list, err := c.p.ReadDir(dir); err == nil && len(list) > 0 {
		return newFatal("destination path '%s' already exists and is not an empty directory.", dir)
	}
	t, err := openTransport(c.p, c.conf, url)
	if err != nil {
		if _, local := t.(*localTransport); !local && !strings.Contains(url, "://") {
			return newFatal("repository '%s' does not exist", c.args[0])
		}
		return err
	}
	kind := ""
	if bare {
		kind = "bare repository "
	}
	if err := c.printMessage("Cloning into %s'%s'...", kind, dir); err != nil {
		return err
	}
	_, serr := c.p.Lstat(dir)
	if err := c.fillClone(t, url, dir, bare); err != nil {
		if serr != nil {
			_ = c.p.RemoveAll(dir) // the error is reported
		}
		return err
	}
	return nil
}

// fillClone creates a repository and fetches everything into it.
func (c *call) fillClone(t transport, url, dir string, bare bool) error {
	refs, err := t.listRefs(false)
	if err != nil {
		return err
	}
	refs = dropBadRefs(refs)
	depth, err := c.readDepth()
	if err != nil {
		return err
	}
	head := chooseHead(refs)
	branch := orDefault(c.flags["-b"], c.flags["--branch"])
	r, err := c.createClone(dir, bare, orDefault(head, orDefault(c.conf.get("init.defaultbranch"), "master")))
	if err != nil {
		return err
	}
	n := &call{repository: r, flags: c.flags}
	origin := orDefault(c.flags["-o"], orDefault(c.flags["--origin"], "origin"))
	tag := ""
	if branch != "" {
		if ref := findRemoteRef(refs, "refs/heads/"+branch); ref != nil {
			head = branch
		} else if ref := findRemoteRef(refs, "refs/tags/"+branch); ref != nil {
			tag = ref.name
		} else {
			return newFatal("Remote branch %s not found in upstream %s", branch, origin)
		}
	}
	single := c.has("--single-branch") || depth > 0 && !c.has("--no-single-branch")
	list := n.selectCloned(refs, origin, bare, single, head, tag)
	var wants []id
	for _, ref := range list {
		wants = append(wants, ref.id)
	}
	if local, ok := t.(*localTransport); ok && depth > 0 && !local.limits {
		if err := c.printError("warning: --depth is ignored in local clones; use file:// instead."); err != nil {
			return err
		}
		depth = 0
	}
	if len(wants) > 0 {
		if err := t.fetch(r, wants, depth); err != nil {
			return err
		}
	}
	if err := n.configureClone(url, origin, bare, single, head); err != nil {
		return err
	}
	if err := n.storeCloned(list, refs, origin, bare, head); err != nil {
		return err
	}
	if len(wants) == 0 {
		if err := c.printError("warning: You appear to have cloned an empty repository."); err != nil {
			return err
		}
		return c.printMessage("done.")
	}
	if bare {
		return c.printMessage("done.")
	}
	return n.startClone(url, origin, head, tag)
}

// chooseHead returns the branch that HEAD of a remote names, or that has its commit.
func chooseHead(refs []remoteRef) string {
	head := remoteRef{}
	for _, ref := range refs {
		if ref.name == "HEAD" {
			head = ref
		}
	}
	if name, ok := strings.CutPrefix(head.target, "refs/heads/"); ok && isRefName(name) {
		return name
	}
	for _, want := range []string{"refs/heads/master", "refs/heads/main", ""} {
		for _, ref := range refs {
			name, ok := strings.CutPrefix(ref.name, "refs/heads/")
			if ok && ref.id == head.id && isRefName(name) && (want == "" || ref.name == want) {
				return name
			}
		}
	}
	return ""
}

func (c *call) createClone(dir string, bare bool, branch string) (*repository, error) {
	if err := c.p.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := c.p.Resolve(dir)
	if err != nil {
		return nil, err
	}
	git := root + "/.git"
	if bare {
		git = root
	}
	if err := createGitDir(c.p, git, branch, bare); err != nil {
		return nil, err
	}
	r := openAt(c.p, root)
	if r == nil {
		return nil, newFatal("the new repository '%s' can't be opened", dir)
	}
	return r, nil
}

// selectCloned returns the refs that a clone brings.
func (c *call) selectCloned(refs []remoteRef, origin string, bare, single bool, head, tag string) []fetchedRef {
	var list []fetchedRef
	for _, ref := range refs {
		name, isBranch := strings.CutPrefix(ref.name, "refs/heads/")
		_, isTag := strings.CutPrefix(ref.name, "refs/tags/")
		if ref.id == "" || !isRefName(strings.TrimPrefix(ref.name, "refs/")) && ref.name != "HEAD" {
			continue
		}
		to := ""
		switch {
		case isBranch && single && (name != head || tag != ""), isTag && (single && ref.name != tag || c.has("--no-tags")):
			continue
		case isBranch && !bare:
			to = "refs/remotes/" + origin + "/" + name
		case isBranch || isTag || bare && c.has("--mirror") && ref.name != "HEAD":
			to = ref.name
		default:
			continue
		}
		c.p.Alloc(200)
		list = append(list, fetchedRef{remoteRef: ref, to: to})
	}
	return list
}

// configureClone writes the section of the remote.
func (c *call) configureClone(url, origin string, bare, single bool, head string) error {
	if bare && !c.has("--mirror") {
		return setConfig(c.p, c.common+"/config", "remote."+origin+".url", url)
	}
	if err := c.configureRemote(origin, url); err != nil {
		return err
	}
	switch {
	case c.has("--mirror"):
		if err := setConfig(c.p, c.common+"/config", "remote."+origin+".fetch", "+refs/*:refs/*"); err != nil {
			return err
		}
		return setConfig(c.p, c.common+"/config", "remote."+origin+".mirror", "true")
	case single && head != "":
		return setConfig(c.p, c.common+"/config", "remote."+origin+".fetch", "+refs/heads/"+head+":refs/remotes/"+origin+"/"+head)
	}
	return nil
}

// storeCloned writes the refs of a clone as packed refs.
func (c *call) storeCloned(list []fetchedRef, refs []remoteRef, origin string, bare bool, head string) error {
	slices.SortFunc(list, func(a, b fetchedRef) int { return strings.Compare(a.to, b.to) })
	var b strings.Builder
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range list {
		if !c.hasObject(ref.id) {
			return newFatal("%s: the remote did not send object %s", ref.name, ref.id)
		}
		fmt.Fprintf(&b, "%s %s\n", ref.id, ref.to)
		if ref.peeled != "" {
			fmt.Fprintf(&b, "^%s\n", ref.peeled)
		}
	}
	if len(list) > 0 {
		if err := c.p.WriteFile(c.common+"/packed-refs", []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	c.packedRefs = nil
	remoteHead := chooseHead(refs)
	if bare || remoteHead == "" || c.readRef("refs/remotes/"+origin+"/"+remoteHead) == "" {
		return nil
	}
	if err := c.p.MkdirAll(c.common+"/refs/remotes/"+origin, 0o777); err != nil {
		return err
	}
	return c.p.WriteFile(c.common+"/refs/remotes/"+origin+"/HEAD", []byte("ref: refs/remotes/"+origin+"/"+remoteHead+"\n"), 0o644)
}

// startClone checks out the branch or tag of a clone.
func (c *call) startClone(url, origin, head, tag string) error {
	at := c.readRef("refs/remotes/" + origin + "/" + head)
	reason := "clone: from " + hidePassword(url)
	if tag != "" {
		at = c.peelTag(c.readRef(tag))
		if err := c.detachHead(at, reason); err != nil {
			return err
		}
	} else if at != "" {
		if err := c.pointHead(head, ""); err != nil {
			return err
		}
		if err := c.writeRef("refs/heads/"+head, at, reason); err != nil {
			return err
		}
		for _, pair := range [][2]string{{".remote", origin}, {".merge", "refs/heads/" + head}} {
			if err := setConfig(c.p, c.common+"/config", "branch."+head+pair[0], pair[1]); err != nil {
				return err
			}
		}
	}
	if at == "" {
		return c.printError("warning: remote HEAD refers to nonexistent ref, unable to checkout")
	}
	if err := c.printMessage("done."); err != nil || c.has("-n", "--no-checkout") {
		return err
	}
	if err := c.resetFiles(at, true); err != nil {
		return err
	}
	if tag == "" {
		return nil
	}
	return c.printMessage("Note: switching to '%s'.\n\nHEAD is detached: commits made now belong to no branch; keep them with git switch -c NAME.\n", at)
}
