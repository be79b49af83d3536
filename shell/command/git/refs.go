package git

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// refPath returns the file of a ref: all working trees share refs, except HEAD and those of a bisection.
func (r *repository) refPath(name string) string {
	if strings.HasPrefix(name, "refs/") && !strings.HasPrefix(name, "refs/bisect/") && !strings.HasPrefix(name, "refs/worktree/") {
		return r.common + "/" + name
	}
	return r.dir + "/" + name
}

// readHead returns the branch that HEAD names ("" if it is detached), and its commit ("" if there is none).
func (r *repository) readHead() (branch string, at id) {
	target := r.readSymbolic("HEAD")
	if target != "" {
		return strings.TrimPrefix(target, "refs/heads/"), r.readRef(target)
	}
	return "", r.readRef("HEAD")
}

// readSymbolic returns the ref that a symbolic ref names, or "".
func (r *repository) readSymbolic(name string) string {
	b, err := r.p.ReadFile(r.refPath(name))
	if err != nil {
		return ""
	}
	defer r.p.Free(int64(cap(b)))
	target, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "ref: ")
	if !ok || strings.Contains(target, "..") {
		return ""
	}
	return strings.TrimSpace(target)
}

// readRef returns the value of a ref, "" if it does not exist. Symbolic refs are followed.
func (r *repository) readRef(name string) id {
	for range 5 {
		if strings.Contains(name, "..") {
			return ""
		}
		b, err := r.p.ReadFile(r.refPath(name))
		if err != nil {
			return r.readPackedRefs()[name]
		}
		text := strings.TrimSpace(string(b))
		r.p.Free(int64(cap(b)))
		target, ok := strings.CutPrefix(text, "ref: ")
		if !ok {
			if i := id(text[:min(40, len(text))]); i.isValid() {
				return i
			}
			return ""
		}
		name = strings.TrimSpace(target)
	}
	return ""
}

// readPackedRefs returns the refs of the file packed-refs, which is read once.
func (r *repository) readPackedRefs() map[string]id {
	if r.packedRefs != nil {
		return r.packedRefs
	}
	r.packedRefs = make(map[string]id)
	b, err := r.p.ReadFile(r.common + "/packed-refs")
	if err != nil {
		return r.packedRefs
	}
	for line := range strings.Lines(string(b)) {
		r.p.Tick(1)
		i, ref, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && id(i).isValid() {
			r.p.Alloc(int64(len(ref)) + 120)
			r.packedRefs[ref] = id(i)
		}
	}
	return r.packedRefs
}

// writeRef sets a ref and, if a reason is given, adds it to the ref's log.
func (r *repository) writeRef(name string, i id, reason string) error {
	old := r.readRef(name)
	file := r.refPath(name)
	if err := r.p.MkdirAll(path.Dir(file), 0o777); err != nil {
		return newFatal("cannot lock ref '%s': a directory of its name can't be made", name)
	}
	if err := r.p.WriteFile(file, []byte(string(i)+"\n"), 0o644); err != nil {
		return err
	}
	if reason == "" {
		return nil
	}
	if target := r.readSymbolic("HEAD"); target == name {
		if err := r.appendLog("HEAD", old, i, reason); err != nil {
			return err
		}
	}
	return r.appendLog(name, old, i, reason)
}

// hasLog reports whether changes of a ref are logged.
func (r *repository) hasLog(name string) bool {
	if name == "refs/stash" {
		return true
	}
	if value, ok := r.conf.lookup("core.logallrefupdates"); ok && !r.conf.isTrue("core.logallrefupdates") && value != "always" || !ok && r.root == "" {
		return false
	}
	return name == "HEAD" || strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/remotes/") || strings.HasPrefix(name, "refs/notes/")
}

// appendLog adds a line to the log of a ref.
func (r *repository) appendLog(name string, old, new id, reason string) error {
	if !r.hasLog(name) {
		return nil
	}
	if old == "" {
		old = zeroID
	}
	who, err := r.buildIdentity("COMMITTER")
	if err != nil {
		who = fmt.Sprintf("unknown <unknown> %d +0000", r.p.Now().Unix()) // as the log of a repository without user
	}
	file := r.logPath(name)
	if err := r.p.MkdirAll(path.Dir(file), 0o777); err != nil {
		return err
	}
	b, _ := r.p.ReadFile(file) // a missing log begins empty
	defer r.p.Free(int64(cap(b)))
	cost := 4 * int64(len(reason)) // the line, and copies on the way
	r.p.Alloc(cost)
	defer r.p.Free(cost)
	line := fmt.Sprintf("%s %s %s\t%s\n", old, new, who, strings.ReplaceAll(strings.TrimRight(reason, "\n"), "\n", " "))
	return r.p.WriteFile(file, append(b, line...), 0o644)
}

func (r *repository) logPath(name string) string {
	if name == "HEAD" {
		return r.dir + "/logs/HEAD"
	}
	return r.common + "/logs/" + name
}

// logEntry is a line of a ref's log.
type logEntry struct {
	old, new    id
	who, reason string
}

// readLog returns the log of a ref, newest first.
func (r *repository) readLog(name string) []logEntry {
	b, err := r.p.ReadFile(r.logPath(name))
	if err != nil {
		return nil
	}
	var list []logEntry
	for line := range strings.Lines(string(b)) {
		r.p.Tick(1)
		head, reason, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if len(head) < 82 {
			continue
		}
		r.p.Alloc(128)
		list = append(list, logEntry{id(head[:40]), id(head[41:81]), head[82:], reason})
	}
	slices.Reverse(list)
	return list
}

// setHead moves the current branch, or a detached HEAD, to a commit.
func (r *repository) setHead(i id, reason string) error {
	if target := r.readSymbolic("HEAD"); target != "" {
		return r.writeRef(target, i, reason)
	}
	return r.writeRef("HEAD", i, reason)
}

// pointHead makes HEAD name a branch.
func (r *repository) pointHead(branch, reason string) error {
	_, old := r.readHead()
	if err := r.p.WriteFile(r.dir+"/HEAD", []byte("ref: refs/heads/"+branch+"\n"), 0o644); err != nil || reason == "" {
		return err
	}
	_, now := r.readHead()
	if now == "" {
		return nil
	}
	return r.appendLog("HEAD", old, now, reason)
}

// detachHead makes HEAD name a commit.
func (r *repository) detachHead(i id, reason string) error {
	_, old := r.readHead()
	if err := r.p.WriteFile(r.dir+"/HEAD", []byte(string(i)+"\n"), 0o644); err != nil {
		return err
	}
	return r.appendLog("HEAD", old, i, reason)
}

// deleteRef removes a ref and its log.
func (r *repository) deleteRef(name string) error {
	if _, packed := r.readPackedRefs()[name]; packed {
		if err := r.removePackedRef(name); err != nil {
			return err
		}
	}
	_ = r.p.Unlink(r.refPath(name)) // a packed ref may have no file
	_ = r.p.Unlink(r.logPath(name)) // likewise
	for dir := path.Dir(name); strings.Count(dir, "/") >= 2; dir = path.Dir(dir) {
		if r.p.Rmdir(r.refPath(dir)) != nil {
			break // not empty
		}
	}
	return nil
}

// removePackedRef removes a ref from the file packed-refs.
func (r *repository) removePackedRef(name string) error {
	b, err := r.p.ReadFile(r.common + "/packed-refs")
	if err != nil {
		return err
	}
	defer r.p.Free(int64(cap(b)))
	var kept strings.Builder
	skipped := false
	for line := range strings.Lines(string(b)) {
		r.p.Tick(1)
		peeled := strings.HasPrefix(line, "^")
		_, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		if skipped = skipped && peeled || ref == name; !skipped {
			kept.WriteString(line)
		}
	}
	r.packedRefs = nil
	return r.p.WriteFile(r.common+"/packed-refs", []byte(kept.String()), 0o644)
}

// listRefs returns the names of refs below a prefix such as refs/heads/, without it, in order.
func (r *repository) listRefs(prefix string) []string {
	found := make(map[string]bool)
	for name := range r.readPackedRefs() {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			found[rest] = true
		}
	}
	var walk func(dir string)
	walk = func(dir string) {
		entries, _ := r.p.ReadDir(r.refPath(prefix + dir)) // a missing directory has none
		for _, e := range entries {
			r.p.Tick(1)
			if e.IsDir() && r.p.Enter() {
				walk(dir + e.Name() + "/")
				r.p.Leave()
			} else if !e.IsDir() && !strings.HasSuffix(e.Name(), ".lock") {
				r.p.Alloc(int64(len(dir)+len(e.Name())) + 64)
				found[dir+e.Name()] = true
			}
		}
	}
	walk("")
	return slices.Sorted(maps.Keys(found))
}

// isRefName reports whether a name is valid for a branch or tag.
func isRefName(name string) bool {
	if name == "" || name[0] == '-' || name[0] == '/' || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") || name == "@" || name == "HEAD" {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return strings.IndexFunc(name, func(r rune) bool { return r < ' ' }) < 0
}

// shortenRef returns the name of a ref as people write it.
func shortenRef(name string) string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/", "refs/"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}
