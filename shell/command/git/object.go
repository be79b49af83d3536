package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// id is the name of an object: its SHA-1 in hexadecimal.
type id string

const zeroID = id("0000000000000000000000000000000000000000")

func (i id) short() string { return string(i[:min(7, len(i))]) }

// isValid reports whether an id is 40 hexadecimal digits.
func (i id) isValid() bool {
	return len(i) == 40 && strings.Trim(string(i), "0123456789abcdef") == ""
}

// maxObjectSize is the size above which an object is corrupt; the memory limit of the sandbox is far below it.
const maxObjectSize = 1 << 40

// hashObject returns the name of an object.
func hashObject(p *kernel.Proc, kind string, b []byte) id {
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "%s %d\x00", kind, len(b)) // a hash does not fail
	_, _ = h.Write(b)
	p.Tick(1 + len(b)>>6)
	return id(hex.EncodeToString(h.Sum(nil)))
}

// deflateMemory is the memory charged for a compressor, inflateMemory for a decompressor.
const (
	deflateMemory = 1 << 20
	inflateMemory = 64 << 10
)

func objectPath(dir string, i id) string {
	return dir + "/" + string(i[:2]) + "/" + string(i[2:])
}

// objectDirs returns the directories of objects: the repository's own and its alternates.
func (r *repository) objectDirs() []string {
	if r.dirs != nil {
		return r.dirs
	}
	r.dirs = []string{r.common + "/objects"}
	for n := 0; n < len(r.dirs) && n < 8; n++ {
		b, err := r.p.ReadFile(r.dirs[n] + "/info/alternates")
		if err != nil {
			continue // most have none
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || len(r.dirs) >= 8 {
				continue
			}
			if line[0] != '/' {
				line = path.Join(r.dirs[n], line)
			}
			r.dirs = append(r.dirs, line)
		}
	}
	return r.dirs
}

// writeObject stores an object, unless it is there, and returns its name.
func (r *repository) writeObject(kind string, b []byte) (id, error) {
	i := hashObject(r.p, kind, b)
	if r.hasObject(i) {
		return i, nil
	}
	r.p.Alloc(deflateMemory + int64(len(b)) + 1<<10)
	defer r.p.Free(deflateMemory + int64(len(b)) + 1<<10)
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, err := fmt.Fprintf(w, "%s %d\x00", kind, len(b))
	if err == nil {
		err = writeInParts(r.p, w, b)
	}
	name := objectPath(r.common+"/objects", i)
	if err = errors.Join(err, w.Close()); err == nil {
		err = r.p.MkdirAll(path.Dir(name), 0o777)
	}
	if err == nil {
		err = r.p.WriteFile(name, z.Bytes(), 0o444)
	}
	return i, err
}

// writeInParts writes bytes to a compressor in parts, so that a deadline ends it in between.
func writeInParts(p *kernel.Proc, w io.Writer, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 64<<10)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		p.Tick(n >> 4)
	}
	return nil
}

// hasObject reports whether an object exists.
func (r *repository) hasObject(i id) bool {
	if !i.isValid() {
		return false
	}
	for _, dir := range r.objectDirs() {
		if _, err := r.p.Lstat(objectPath(dir, i)); err == nil {
			return true
		}
	}
	k, _ := r.findPacked(i)
	return k != nil
}

// readObject returns the kind and the content of an object. The process is charged for the length of the
// content; release frees that.
func (r *repository) readObject(i id) (string, []byte, error) {
	if !i.isValid() {
		return "", nil, newFatal("Not a valid object name %s", i)
	}
	if k, at := r.findPacked(i); k != nil {
		return r.readPacked(k, at, i)
	}
	for _, dir := range r.objectDirs() {
		h, err := r.p.Open(objectPath(dir, i))
		if err != nil {
			continue // the next directory may have it
		}
		kind, b, err := r.readLoose(h, i)
		return kind, b, errors.Join(err, h.Close())
	}
	return "", nil, newFatal("bad object %s", i)
}

// release frees the charge for the content of an object.
func (r *repository) release(b []byte) { r.p.Free(int64(len(b))) }

// readLoose reads the file of a loose object.
func (r *repository) readLoose(h io.Reader, i id) (string, []byte, error) {
	corrupt := newFatal("loose object %s is corrupt", i)
	r.p.Alloc(inflateMemory)
	defer r.p.Free(inflateMemory)
	z, err := zlib.NewReader(h)
	if err != nil {
		return "", nil, corrupt
	}
	in := bufio.NewReaderSize(z, 4096)
	var head []byte
	for len(head) < 32 {
		c, err := in.ReadByte()
		if err != nil {
			return "", nil, corrupt
		}
		if c == 0 {
			break
		}
		head = append(head, c)
	}
	kind, size, _ := strings.Cut(string(head), " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 || n > maxObjectSize {
		return "", nil, corrupt
	}
	b, err := r.readExactly(in, n)
	if err != nil || hashObject(r.p, kind, b) != i {
		r.release(b)
		return "", nil, corrupt
	}
	return kind, b, nil
}

// readExactly reads n bytes, which must be the whole of a stream, and charges them.
func (r *repository) readExactly(in io.Reader, n int64) ([]byte, error) {
	r.p.Alloc(n)
	b := make([]byte, n)
	for done := 0; done < len(b); {
		m, err := io.ReadFull(in, b[done:min(done+64<<10, len(b))])
		r.p.Tick(m >> 4)
		done += m
		if err != nil {
			return b, io.ErrUnexpectedEOF
		}
	}
	if m, err := io.ReadFull(in, make([]byte, 1)); m != 0 || !errors.Is(err, io.EOF) {
		return b, errors.New("the stream is longer than its header announces")
	}
	return b, nil
}

// commit is a parsed commit.
type commit struct {
	id                id
	tree              id
	parents           []id
	author, committer string
	message           string
}

// readCommit reads a commit, or the commit that a tag names.
func (r *repository) readCommit(i id) (*commit, error) {
	i = r.peelTag(i)
	kind, b, err := r.readObject(i)
	if err != nil {
		return nil, err
	}
	if kind != "commit" {
		r.release(b)
		return nil, newFatal("%s is a %s, not a commit", i, kind)
	}
	r.p.Tick(4 + len(b)>>5)
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
	if r.readShallow()[i] {
		c.parents = nil
	}
	return c, nil
}

// subject returns the first paragraph of the message as one line.
func (k *commit) subject() string {
	text := strings.TrimLeft(k.message, "\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " ")
}

// peelTag returns the object that an annotated tag names, or the object itself.
func (r *repository) peelTag(i id) id {
	for range 8 {
		kind, err := r.readKind(i)
		if err != nil || kind != "tag" {
			return i
		}
		_, b, err := r.readObject(i)
		if err != nil {
			return i
		}
		line, _, _ := strings.Cut(string(b), "\n")
		r.release(b)
		i = id(strings.TrimPrefix(line, "object "))
	}
	return i
}

// readKind returns the kind of an object.
func (r *repository) readKind(i id) (string, error) {
	if r.kinds[i] != "" {
		return r.kinds[i], nil
	}
	kind, b, err := r.readObject(i)
	if err != nil {
		return "", err
	}
	r.release(b)
	if r.kinds == nil {
		r.kinds = make(map[id]string)
	}
	r.p.Alloc(96)
	r.kinds[i] = kind
	return kind, nil
}

// treeEntry is a file of a tree or of the index.
type treeEntry struct {
	mode uint32 // as git writes it: 0o100644, 0o100755, 0o120000, 0o160000
	id   id
}

// treeItem is an entry of one tree object.
type treeItem struct {
	name string
	treeEntry
}

const (
	modeTree = 0o040000
	modeLink = 0o120000
	modeRepo = 0o160000
)

// isSafeName reports whether a name of a tree may become a file of the working tree.
func isSafeName(name string) bool {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return false
	}
	return !strings.EqualFold(name, ".git") && !strings.EqualFold(name, "git~1")
}

// readTreeItems returns the entries of a tree or of the tree of a commit, charged to the process.
func (r *repository) readTreeItems(i id) ([]treeItem, error) {
	kind, b, err := r.readObject(i)
	if err != nil {
		return nil, err
	}
	defer r.release(b)
	if kind == "commit" || kind == "tag" {
		c, err := r.readCommit(i)
		if err != nil {
			return nil, err
		}
		return r.readTreeItems(c.tree)
	}
	if kind != "tree" {
		return nil, newFatal("not a tree object: %s", i)
	}
	var list []treeItem
	for len(b) > 0 {
		r.p.Tick(1)
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		m, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !named || err != nil || len(rest) < 20 || !isSafeName(name) {
			return nil, newFatal("bad tree object %s", i)
		}
		r.p.Alloc(int64(len(name)) + 96)
		list = append(list, treeItem{name, treeEntry{uint32(m), id(hex.EncodeToString(rest[:20]))}})
		b = rest[20:]
	}
	return list, nil
}

// readTree adds the files of a tree to a map.
func (r *repository) readTree(i id, prefix string, files map[string]treeEntry) error {
	if !r.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer r.p.Leave()
	items, err := r.readTreeItems(i)
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.mode == modeTree {
			if err := r.readTree(it.id, prefix+it.name+"/", files); err != nil {
				return err
			}
			continue
		}
		r.p.Alloc(int64(len(prefix)+len(it.name)) + 160)
		files[prefix+it.name] = it.treeEntry
	}
	return nil
}
