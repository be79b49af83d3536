// Package git holds the command git: repositories of loose objects in the virtual file system.
package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// id is the name of an object: its SHA-1 in hexadecimal.
type id string

func (i id) short() string { return string(i[:min(7, len(i))]) }

// repository is an opened repository.
type repository struct {
	p    *kernel.Proc
	root string // of the working tree
	dir  string // .git
	conf map[string]string
}

// failure is an error that ends the command with a status; its message begins with "fatal: " or "error: ".
type failure struct {
	code int
	msg  string
}

func (f *failure) Error() string { return f.msg }

func newFatal(format string, args ...any) error {
	return &failure{128, "fatal: " + fmt.Sprintf(format, args...)}
}

func newError(format string, args ...any) error {
	return &failure{1, "error: " + fmt.Sprintf(format, args...)}
}

// openRepository finds the repository of the working directory.
func openRepository(p *kernel.Proc) (*repository, error) {
	dir, err := p.Resolve(".")
	if err != nil {
		return nil, newFatal("Unable to read current working directory: %s", program.Reason(err))
	}
	for {
		if info, err := p.Stat(path.Join(dir, ".git")); err == nil && info.IsDir() {
			r := &repository{p: p, root: dir, dir: path.Join(dir, ".git")}
			r.conf = readConfig(p, p.Getenv("HOME")+"/.gitconfig", r.dir+"/config")
			return r, nil
		}
		if dir == "/" {
			return nil, newFatal("not a git repository (or any of the parent directories): .git")
		}
		dir = path.Dir(dir)
	}
}

// readConfig returns the values of configuration files by "section.key" or "section.sub.key", later files first.
func readConfig(p *kernel.Proc, files ...string) map[string]string {
	conf := make(map[string]string)
	for _, file := range files {
		b, err := p.ReadFile(file)
		if err != nil {
			continue // a missing file has no values
		}
		section := ""
		for line := range strings.Lines(string(b)) {
			p.Tick(1)
			line = strings.TrimSpace(line)
			switch {
			case line == "" || line[0] == '#' || line[0] == ';':
			case line[0] == '[':
				name, sub, _ := strings.Cut(strings.Trim(line, "[]"), " ")
				section = strings.ToLower(name)
				if sub = strings.Trim(sub, `"`); sub != "" {
					section += "." + sub
				}
			default:
				key, value, ok := strings.Cut(line, "=")
				if !ok {
					value = "true"
				}
				p.Alloc(int64(len(line)) + 64)
				conf[section+"."+strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return conf
}

// setConfig sets a value in a configuration file.
func setConfig(p *kernel.Proc, file, name, value string) error {
	cut := strings.LastIndexByte(name, '.')
	section, key := name[:cut], name[cut+1:]
	if s, sub, ok := strings.Cut(section, "."); ok {
		section = s + ` "` + sub + `"`
	}
	b, err := p.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := "\t" + key + " = " + value + "\n"
	var out strings.Builder
	in, done := false, false
	for l := range strings.Lines(string(b)) {
		t := strings.TrimSpace(l)
		if strings.HasPrefix(t, "[") {
			if in && !done {
				out.WriteString(line)
				done = true
			}
			in = t == "["+section+"]"
		}
		if k, _, _ := strings.Cut(t, "="); in && !done && strings.EqualFold(strings.TrimSpace(k), key) {
			l, done = line, true
		}
		out.WriteString(l)
	}
	if !done {
		if !in {
			out.WriteString("[" + section + "]\n")
		}
		out.WriteString(line)
	}
	return p.WriteFile(file, []byte(out.String()), 0o644)
}

// hashObject returns the name of an object.
func hashObject(p *kernel.Proc, kind string, b []byte) id {
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "%s %d\x00", kind, len(b)) // a hash does not fail
	_, _ = h.Write(b)
	p.Tick(1 + len(b)>>6)
	return id(hex.EncodeToString(h.Sum(nil)))
}

// deflateMemory is the memory charged for a compressor.
const deflateMemory = 1 << 20

func (r *repository) objectPath(i id) string {
	return r.dir + "/objects/" + string(i[:2]) + "/" + string(i[2:])
}

// writeObject stores an object, unless it is there, and returns its name.
func (r *repository) writeObject(kind string, b []byte) (id, error) {
	i := hashObject(r.p, kind, b)
	name := r.objectPath(i)
	if _, err := r.p.Lstat(name); err == nil {
		return i, nil
	}
	r.p.Alloc(deflateMemory + int64(len(b)) + 1<<10)
	defer r.p.Free(deflateMemory + int64(len(b)) + 1<<10)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, err := fmt.Fprintf(w, "%s %d\x00", kind, len(b))
	for rest := b; err == nil && len(rest) > 0; {
		n := min(len(rest), 64<<10)
		_, err = w.Write(rest[:n])
		rest = rest[n:]
		r.p.Tick(n >> 4)
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = r.p.MkdirAll(path.Dir(name), 0o777)
	}
	if err == nil {
		err = r.p.WriteFile(name, z.Bytes(), 0o444)
	}
	return i, err
}

// readObject returns the kind and the content of an object, charged to the process.
func (r *repository) readObject(i id) (string, []byte, error) {
	if len(i) != 40 {
		return "", nil, newFatal("Not a valid object name %s", i)
	}
	h, err := r.p.Open(r.objectPath(i))
	if err != nil {
		if list, _ := r.p.ReadDir(r.dir + "/objects/pack"); len(list) > 0 {
			return "", nil, newFatal("object %s: this git reads loose objects only, and the repository has packs: run `git unpack-objects' where it comes from", i)
		}
		return "", nil, newFatal("bad object %s", i)
	}
	defer h.Close()
	z, err := zlib.NewReader(h)
	if err != nil {
		return "", nil, newFatal("loose object %s is corrupt", i)
	}
	b, err := r.p.ReadAll(z)
	if err != nil {
		return "", nil, newFatal("loose object %s is corrupt", i)
	}
	head, body, ok := bytes.Cut(b, []byte{0})
	kind, size, _ := strings.Cut(string(head[:min(len(head), 32)]), " ")
	if n, err := strconv.Atoi(size); !ok || err != nil || n != len(body) || hashObject(r.p, kind, body) != i {
		return "", nil, newFatal("loose object %s is corrupt", i)
	}
	return kind, body, nil
}

// commit is a parsed commit.
type commit struct {
	id                id
	tree              id
	parents           []id
	author, committer string
	message           string
}

func (r *repository) readCommit(i id) (*commit, error) {
	kind, b, err := r.readObject(i)
	if err != nil {
		return nil, err
	}
	if kind != "commit" {
		return nil, newFatal("%s is a %s, not a commit", i, kind)
	}
	head, message, _ := strings.Cut(string(b), "\n\n")
	c := &commit{id: i, message: message}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.tree = id(value)
		case "parent":
			c.parents = append(c.parents, id(value))
		case "author":
			c.author = value
		case "committer":
			c.committer = value
		}
	}
	return c, nil
}

// readHead returns the branch that HEAD names ("" if it is detached), and its commit ("" if there is none).
func (r *repository) readHead() (branch string, at id) {
	b, err := r.p.ReadFile(r.dir + "/HEAD")
	if err != nil {
		return "", ""
	}
	text := strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		return strings.TrimPrefix(ref, "refs/heads/"), r.readRef(ref)
	}
	return "", id(text)
}

// readRef returns the value of a ref, "" if it does not exist.
func (r *repository) readRef(name string) id {
	if b, err := r.p.ReadFile(r.dir + "/" + name); err == nil {
		return id(strings.TrimSpace(string(b)))
	}
	b, err := r.p.ReadFile(r.dir + "/packed-refs")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if i, ref, _ := strings.Cut(strings.TrimSpace(line), " "); ref == name {
			return id(i)
		}
	}
	return ""
}

func (r *repository) writeRef(name string, i id) error {
	file := r.dir + "/" + name
	if err := r.p.MkdirAll(path.Dir(file), 0o777); err != nil {
		return err
	}
	return r.p.WriteFile(file, []byte(string(i)+"\n"), 0o644)
}

// setHead moves the current branch, or a detached HEAD, to a commit.
func (r *repository) setHead(i id) error {
	branch, _ := r.readHead()
	if branch == "" {
		return r.p.WriteFile(r.dir+"/HEAD", []byte(string(i)+"\n"), 0o644)
	}
	return r.writeRef("refs/heads/"+branch, i)
}

// listRefs returns the names of refs below a prefix such as refs/heads/, without it, in order.
func (r *repository) listRefs(prefix string) []string {
	var list []string
	var walk func(dir string)
	walk = func(dir string) {
		entries, _ := r.p.ReadDir(r.dir + "/" + prefix + dir) // a missing directory has none
		for _, e := range entries {
			r.p.Tick(1)
			if e.IsDir() && r.p.Enter() {
				walk(dir + e.Name() + "/")
				r.p.Leave()
			} else if !e.IsDir() {
				list = append(list, dir+e.Name())
			}
		}
	}
	walk("")
	return list
}

// resolveRevision returns the commit that a revision names: HEAD, a branch, a tag or an abbreviated name, with ~N
// and ^ after it.
func (r *repository) resolveRevision(rev string) (id, error) {
	bad := newFatal("ambiguous argument '%s': unknown revision or path not in the working tree.\nUse '--' to separate paths from revisions, like this:\n'git <command> [<revision>...] -- [<file>...]'", rev)
	base := rev
	if i := strings.IndexAny(rev, "~^"); i >= 0 {
		base = rev[:i]
	}
	at := r.resolveName(base)
	if at == "" {
		return "", bad
	}
	for rest := rev[len(base):]; rest != ""; {
		if rest == "^{tree}" {
			c, err := r.readCommit(at)
			if err != nil {
				return "", err
			}
			return c.tree, nil
		}
		if rest == "^{commit}" {
			return at, nil
		}
		n := 1
		op := rest[0]
		digits := 1
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits > 1 {
			n, _ = strconv.Atoi(rest[1:digits]) // digits
		}
		rest = rest[digits:]
		for step := 0; step < n; step++ {
			c, err := r.readCommit(at)
			if err != nil {
				return "", err
			}
			which := 0
			if op == '^' {
				which, step = n-1, n
			}
			if which >= len(c.parents) {
				return "", bad
			}
			at = c.parents[which]
		}
	}
	return at, nil
}

func (r *repository) resolveName(name string) id {
	if name == "HEAD" || name == "@" {
		_, at := r.readHead()
		return at
	}
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if prefix == "" && !strings.HasPrefix(name, "refs/") {
			continue
		}
		if i := r.readRef(prefix + name); i != "" {
			return r.peelTag(i)
		}
	}
	if len(name) < 4 || strings.Trim(name, "0123456789abcdef") != "" || len(name) > 40 {
		return ""
	}
	list, _ := r.p.ReadDir(r.dir + "/objects/" + name[:2]) // a missing directory has none
	found := id("")
	for _, e := range list {
		if strings.HasPrefix(e.Name(), name[2:]) {
			if found != "" {
				return ""
			}
			found = id(name[:2] + e.Name())
		}
	}
	return r.peelTag(found)
}

// peelTag returns the object that an annotated tag names, or the object itself.
func (r *repository) peelTag(i id) id {
	for range 8 {
		kind, b, err := r.readObject(i)
		if err != nil || kind != "tag" {
			return i
		}
		line, _, _ := strings.Cut(string(b), "\n")
		i = id(strings.TrimPrefix(line, "object "))
	}
	return i
}

// treeEntry is a file of a tree or of the index.
type treeEntry struct {
	mode uint32 // as git writes it: 0o100644, 0o100755, 0o120000
	id   id
}

// readTree adds the files of a tree to a map.
func (r *repository) readTree(i id, prefix string, files map[string]treeEntry) error {
	kind, b, err := r.readObject(i)
	if err != nil {
		return err
	}
	if kind == "commit" {
		c, err := r.readCommit(i)
		if err != nil {
			return err
		}
		return r.readTree(c.tree, prefix, files)
	}
	if kind != "tree" || !r.p.Enter() {
		return newFatal("not a tree object: %s", i)
	}
	defer r.p.Leave()
	for len(b) > 0 {
		r.p.Tick(1)
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		m, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !named || err != nil || len(rest) < 20 || name == "" || strings.Contains(name, "/") || name == "." || name == ".." || strings.EqualFold(name, ".git") {
			return newFatal("bad tree object %s", i)
		}
		child := id(hex.EncodeToString(rest[:20]))
		b = rest[20:]
		if m == 0o40000 {
			if err := r.readTree(child, prefix+name+"/", files); err != nil {
				return err
			}
			continue
		}
		r.p.Alloc(int64(len(prefix)+len(name)) + 160)
		files[prefix+name] = treeEntry{uint32(m), child}
	}
	return nil
}

// readHeadTree returns the files of the commit at HEAD.
func (r *repository) readHeadTree() (map[string]treeEntry, error) {
	files := make(map[string]treeEntry)
	_, at := r.readHead()
	if at == "" {
		return files, nil
	}
	return files, r.readTree(at, "", files)
}

// readWorkFile returns the content that git would store for a file, and its mode.
func (r *repository) readWorkFile(name string) ([]byte, uint32, error) {
	file := r.root + "/" + name
	info, err := r.p.Lstat(file)
	if err != nil {
		return nil, 0, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		text, err := r.p.Readlink(file)
		return []byte(text), 0o120000, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fs.ErrNotExist
	}
	b, err := r.p.ReadFile(file)
	mode := uint32(0o100644)
	if info.Mode()&0o100 != 0 {
		mode = 0o100755
	}
	return b, mode, err
}

// writeWorkFile creates or replaces a file of the working tree. Links in the directories above it are
// replaced by directories, so that nothing is written through them.
func (r *repository) writeWorkFile(name string, e treeEntry) error {
	mark := r.p.Charged()
	defer func() { r.p.Free(r.p.Charged() - mark) }()
	_, b, err := r.readObject(e.id)
	if err != nil {
		return err
	}
	file := r.root + "/" + name
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := r.p.Lstat(r.root + "/" + dir); err == nil && !info.IsDir() {
			_ = r.p.Unlink(r.root + "/" + dir) // the next call reports the error
		}
	}
	if err := r.p.MkdirAll(path.Dir(file), 0o777); err != nil {
		return err
	}
	if _, err := r.p.Lstat(file); err == nil {
		if err := r.p.RemoveAll(file); err != nil {
			return err
		}
	}
	if e.mode == 0o120000 {
		return r.p.Symlink(string(b), file)
	}
	out, err := r.p.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(e.mode&0o111|0o666))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bytes.NewReader(b))
	return errors.Join(err, out.Close())
}

// removeWorkFile removes a file and the directories that it leaves empty.
func (r *repository) removeWorkFile(name string) {
	_ = r.p.Unlink(r.root + "/" + name) // one that is not there is removed
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if r.p.Rmdir(r.root+"/"+dir) != nil {
			return // not empty
		}
	}
}
