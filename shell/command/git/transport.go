package git

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// remoteRef is a ref of another repository.
type remoteRef struct {
	name   string
	id     id
	peeled id     // the commit of an annotated tag
	target string // of a symbolic ref
}

// refUpdate is a ref that a push changes; a new value of zeroID deletes it.
type refUpdate struct {
	name     string
	old, new id
	force    bool
	problem  string // why the other side refused it
}

// transport reaches another repository.
type transport interface {
	// listRefs returns its refs, HEAD first.
	listRefs(push bool) ([]remoteRef, error)
	// fetch brings objects into r. With a depth it brings only so many commits of each line of history.
	fetch(r *repository, wants []id, depth int) error
	// push sends objects of r and updates refs; it sets the problems of updates.
	push(r *repository, updates []refUpdate) error
}

// openTransport returns the transport for a URL or a path.
func openTransport(p *kernel.Proc, conf config, url string) (transport, error) {
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case ok && (scheme == "http" || scheme == "https"):
		return newHTTPTransport(p, conf, url)
	case ok && scheme == "file":
		url = strings.TrimPrefix(url, "file://")
		if other := openRemoteDir(p, url); other != nil {
			return &localTransport{other, true}, nil
		}
	case ok:
		return nil, newFatal("%s is not supported in a virtual sandbox: use https://, file:// or a path", scheme+"://")
	case strings.Contains(cutBefore(url, "/"), ":"):
		return nil, newFatal("ssh is not supported in a virtual sandbox: use https:// instead of '%s'", url)
	}
	other := openRemoteDir(p, url)
	if other == nil {
		if b, err := openBundle(p, url); b != nil || err != nil {
			return b, err
		}
		return nil, newFatal("'%s' does not appear to be a git repository\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.", url)
	}
	return &localTransport{other, false}, nil
}

// openRemoteDir opens the repository at a path: the directory, its .git, or the path with .git added.
func openRemoteDir(p *kernel.Proc, name string) *repository {
	for _, dir := range []string{name, name + ".git"} {
		root, err := p.Resolve(dir)
		if err != nil {
			continue
		}
		if r := openAt(p, root); r != nil {
			return r
		}
	}
	return nil
}

// localTransport reaches a repository in the same file system.
type localTransport struct {
	other  *repository
	limits bool // --depth limits the history: the repository has a URL instead of a path
}

func (t *localTransport) listRefs(bool) ([]remoteRef, error) {
	r := t.other
	var list []remoteRef
	if i := r.readRef("HEAD"); i != "" || r.readSymbolic("HEAD") != "" {
		list = append(list, remoteRef{name: "HEAD", id: i, target: r.readSymbolic("HEAD")})
	}
	for _, name := range r.listRefs("refs/") {
		ref := remoteRef{name: "refs/" + name, id: r.readRef("refs/" + name), target: r.readSymbolic("refs/" + name)}
		if ref.id == "" {
			continue
		}
		if peeled := r.peelTag(ref.id); peeled != ref.id {
			ref.peeled = peeled
		}
		r.p.Alloc(200)
		list = append(list, ref)
	}
	return list, nil
}

func (t *localTransport) fetch(r *repository, wants []id, depth int) error {
	if depth > 0 && t.limits {
		return t.fetchShallow(r, wants, depth)
	}
	if depth > 0 && depth < infiniteDepth {
		return newFatal("--depth is not supported for a path: use it with file:// or https://, or clone the whole repository")
	}
	if len(r.listRefs("refs/")) == 0 {
		return r.copyStores(t.other)
	}
	return r.copyObjects(t.other, wants)
}

// infiniteDepth is the depth of --unshallow.
const infiniteDepth = 1<<31 - 1

// fetchShallow brings so many commits of each line of history, and stores where the history is cut.
func (t *localTransport) fetchShallow(r *repository, wants []id, depth int) error {
	border, level := maps.Clone(t.other.readShallow()), []id(nil)
	if border == nil {
		border = make(map[id]bool)
	}
	for _, i := range wants {
		level = append(level, t.other.peelTag(i))
	}
	seen := make(map[id]bool)
	for n := 1; len(level) > 0 && n <= depth; n++ {
		var next []id
		for _, i := range level {
			if seen[i] {
				continue
			}
			r.p.Tick(2)
			r.p.Alloc(128)
			seen[i] = true
			k, err := t.other.readCommit(i)
			if err != nil {
				return err
			}
			if n == depth && len(k.parents) > 0 {
				border[i] = true
			}
			next = append(next, k.parents...)
		}
		level = next
	}
	was := t.other.readShallow()
	t.other.shallow, t.other.commits = border, nil // the copy ends there
	err := r.copyHistory(t.other, wants, seen)
	t.other.shallow, t.other.commits = was, nil
	if err != nil {
		return err
	}
	kept := make(map[id]bool)
	for i := range border {
		if seen[i] {
			kept[i] = true
		}
	}
	for i := range r.readShallow() {
		if !seen[i] {
			kept[i] = true
		}
	}
	return writeShallow(r, kept)
}

func (t *localTransport) push(r *repository, updates []refUpdate) error {
	branch := ""
	if t.other.root != "" {
		branch = t.other.readSymbolic("HEAD")
	}
	deny := t.other.conf.get("receive.denycurrentbranch")
	for n := range updates {
		u := &updates[n]
		if u.new == zeroID {
			if u.name == t.other.readSymbolic("HEAD") {
				u.problem = "deletion of the current branch prohibited"
				continue
			}
			if err := t.other.deleteRef(u.name); err != nil {
				return err
			}
			continue
		}
		if u.name == branch && deny != "ignore" && deny != "warn" && deny != "updateInstead" {
			u.problem = "branch is currently checked out"
			continue
		}
		if err := t.other.copyObjects(r, []id{u.new}); err != nil {
			return err
		}
		if u.name == branch && deny == "updateInstead" {
			if err := t.other.checkOut(u.new, "push", "push"); err != nil {
				return err
			}
		}
		if err := t.other.writeRef(u.name, u.new, "push"); err != nil {
			return err
		}
	}
	return nil
}

// remoteURL returns the URL of a remote or the argument itself, if there is no such remote.
func (r *repository) remoteURL(name string, push bool) string {
	url, ok := r.conf.lookup("remote." + name + ".url")
	if !ok {
		return name
	}
	if push {
		url = orDefault(r.conf.get("remote."+name+".pushurl"), url)
	}
	for _, e := range r.conf {
		base, ok := strings.CutPrefix(e.name, "url.")
		if base, ok2 := strings.CutSuffix(base, ".insteadof"); ok && ok2 && strings.HasPrefix(url, e.value) {
			return base + strings.TrimPrefix(url, e.value)
		}
	}
	return url
}

// shownURL returns a URL as messages show it: without a password, a last slash and .git.
func shownURL(url string) string {
	url = strings.TrimSuffix(strings.TrimRight(hidePassword(url), "/"), ".git")
	return strings.TrimSuffix(url, "/")
}

// hidePassword removes the user and the password from a URL.
func hidePassword(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	host, below, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return scheme + "://" + host[at+1:] + "/" + below
	}
	return url
}

// listRemote is git ls-remote.
func (c *call) listRemote() error {
	name := "origin"
	if len(c.args) > 0 {
		name = c.args[0]
	} else if len(c.remotes()) == 0 {
		return newFatal("No remote configured to list refs from.")
	}
	url := c.remoteURL(name, false)
	t, err := openTransport(c.p, c.conf, url)
	if err != nil {
		return err
	}
	if len(c.args) == 0 && !c.has("-q", "--quiet") {
		if err := c.printMessage("From %s", hidePassword(url)); err != nil {
			return err
		}
	}
	refs, err := t.listRefs(false)
	if err != nil {
		return err
	}
	out, found := c.p.Out(), false
	for _, ref := range refs {
		heads, tags := strings.HasPrefix(ref.name, "refs/heads/"), strings.HasPrefix(ref.name, "refs/tags/")
		limited := c.has("-h", "--heads", "-t", "--tags") && !(heads && c.has("-h", "--heads")) && !(tags && c.has("-t", "--tags"))
		if limited || ref.id == "" || len(c.args) > 1 && !slices.ContainsFunc(c.args[1:], func(p string) bool { return matchGlob(c.p, "*/"+p, "/"+ref.name) }) {
			continue
		}
		found = true
		if c.has("--symref") && ref.target != "" {
			_, _ = out.WriteString("ref: " + ref.target + "\t" + ref.name + "\n") // Flush reports the error, as of all writes
		}
		_, _ = out.WriteString(string(ref.id) + "\t" + ref.name + "\n")
		if ref.peeled != "" && !c.has("--refs") {
			_, _ = out.WriteString(string(ref.peeled) + "\t" + ref.name + "^{}\n")
		}
	}
	if !found && c.has("--exit-code") {
		return &failure{2, ""}
	}
	return nil
}

// directoryOf returns the directory that a clone of a URL gets.
func directoryOf(url string) string {
	url = strings.TrimRight(url, "/")
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/.git"), ".git")
	url = strings.TrimSuffix(url, ".bundle")
	if at := strings.LastIndexByte(url, ':'); at > strings.LastIndexByte(url, '/') {
		url = url[at+1:]
	}
	return path.Base(url)
}
