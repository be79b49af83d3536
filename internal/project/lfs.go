package project

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// lfsObject is a file that git-lfs stores outside of git's objects. Git has a pointer to it: a blob with its hash and size.
type lfsObject struct {
	id   string // SHA-256
	size int64
}

// lfsPointer matches a pointer of git-lfs.
var lfsPointer = regexp.MustCompile(`\Aversion https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n\z`)

// Sizes of a pointer in bytes, as git-lfs has them.
const minLFSPointer, maxLFSPointer = 120, 1024

// maxLFSObjects limits the number of objects of one fetch.
const maxLFSObjects = 100_000

func parseLFSPointer(blob string) (lfsObject, bool) {
	m := lfsPointer.FindStringSubmatch(blob)
	if m == nil {
		return lfsObject{}, false
	}
	size, err := strconv.ParseInt(m[2], 10, 64)
	return lfsObject{m[1], size}, err == nil
}

// storePath returns the path of an object in a store.
func (o lfsObject) storePath() string { return path.Join(o.id[:2], o.id[2:4], o.id) }

// lfsStore returns the directory of the host's LFS objects, and whether it exists.
func (r *Repo) lfsStore(ctx context.Context) (dir string, exists bool, err error) {
	dir = filepath.Join(r.common, "lfs")
	storage, err := r.readConfig(ctx, "lfs.storage")
	if err != nil {
		return "", false, err
	}
	switch {
	case filepath.IsAbs(storage):
		dir = storage
	case storage != "":
		dir = filepath.Join(r.common, storage)
	}
	dir = filepath.Join(dir, "objects")
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir(), nil
}

// usesLFS reports whether the attributes of a commit give files to git-lfs.
func (h host) usesLFS(ctx context.Context, commit string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	_, code, err := h.withEnv("GIT_LITERAL_PATHSPECS=0").runStatus(ctx, "grep", "-q", "-F", "-e", "filter=lfs", commit, "--", ":(top,glob)**/.gitattributes")
	return code == 0, err
}

// listLFSObjects returns the LFS objects to which the objects of revisions point: lines for 'git rev-list --stdin'.
func (h host) listLFSObjects(ctx context.Context, revs string, args ...string) ([]lfsObject, error) {
	out, err := h.runWithInput(ctx, revs, append([]string{"rev-list", "--objects", "--no-object-names", "--stdin"}, args...)...)
	if err != nil {
		return nil, err
	}
	pointers, err := h.readLFSPointers(ctx, splitLines(out))
	if err != nil {
		return nil, err
	}
	seen := make(map[lfsObject]bool)
	var list []lfsObject
	for _, o := range pointers {
		if !seen[o] {
			seen[o] = true
			list = append(list, o)
		}
	}
	return list, nil
}

// readLFSPointers returns the LFS objects to which blobs point, by blob. Other objects are left out.
func (h host) readLFSPointers(ctx context.Context, objects []string) (map[string]lfsObject, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	out, err := h.runWithInput(ctx, strings.Join(objects, "\n")+"\n", "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
	if err != nil {
		return nil, err
	}
	var small []string
	for _, l := range splitLines(out) {
		id, rest, _ := strings.Cut(l, " ")
		kind, size, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && kind == "blob" && n >= minLFSPointer && n <= maxLFSPointer {
			small = append(small, id)
		}
	}
	if len(small) == 0 {
		return nil, nil
	}
	if out, err = h.runWithInput(ctx, strings.Join(small, "\n")+"\n", "cat-file", "--batch=%(objectname) %(objectsize)"); err != nil {
		return nil, err
	}
	pointers := make(map[string]lfsObject)
	return pointers, eachObject(out, func(id, blob string) error {
		if o, ok := parseLFSPointer(blob); ok {
			pointers[id] = o
		}
		return nil
	})
}

// writeLFSTar writes the objects that the host's store has as a tar stream, with their paths in a git directory.
func writeLFSTar(w io.Writer, store string, list []lfsObject) error {
	root, err := os.OpenRoot(store)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	tw := tar.NewWriter(w)
	for _, o := range list {
		if err := writeLFSObject(tw, root, o); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("LFS object %s: %w", o.id, err)
		}
	}
	return tw.Close()
}

func writeLFSObject(tw *tar.Writer, root *os.Root, o lfsObject) (err error) {
	f, err := root.Open(filepath.FromSlash(o.storePath()))
	if err != nil {
		return err
	}
	defer joinClose(&err, f.Close)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != o.size {
		return err // it is damaged; 'git lfs fsck' reports it
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join("lfs/objects", o.storePath()), Size: o.size, Mode: 0o644, ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.CopyN(tw, f, o.size)
	return err
}

// receiveLFSObjects copies the LFS objects to which the sandbox's new commits point into the host's store, and checks them.
// One that the sandbox does not have is left out: a server may have it.
func (r *Repo) receiveLFSObjects(ctx context.Context, g guest, q *quarantine, tips []string, l Limits) error {
	inside := path.Join(g.dir, ".git/lfs/objects")
	_, err := atoll.Stat(ctx, g.sb, inside)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) { // .git may be a file, as in a submodule
		common, cerr := g.commonDir(ctx)
		if cerr != nil {
			return errors.Join(err, cerr)
		}
		inside = path.Join(common, "lfs/objects")
		_, err = atoll.Stat(ctx, g.sb, inside)
	}
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := q.listLFSObjects(ctx, strings.Join(tips, "\n")+"\n", "--not", "--all")
	if err != nil || len(list) == 0 {
		return err
	}
	store, _, err := r.lfsStore(ctx)
	if err != nil {
		return err
	}
	if len(list) > maxLFSObjects {
		return fmt.Errorf("%w: the sandbox's new commits have more than %d LFS objects", ErrTooLarge, maxLFSObjects)
	}
	left := l.Bytes
	for _, o := range list {
		to := filepath.Join(store, filepath.FromSlash(o.storePath()))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if left -= o.size; left < 0 {
			return fmt.Errorf("%w: the sandbox's new LFS objects are more than %d bytes", ErrTooLarge, l.Bytes)
		}
		err := g.copyLFSObject(ctx, path.Join(inside, o.storePath()), to, o)
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return r.wrapDiskFullError(fmt.Errorf("LFS object %s of the sandbox: %w", o.id, err))
		}
	}
	return nil
}

// copyLFSObject copies an object of a sandbox to a file of the host, which appears only when it is complete and right.
func (g guest) copyLFSObject(ctx context.Context, from, to string, o lfsObject) (err error) {
	in, err := atoll.OpenFile(ctx, g.sb, from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(to), "tmp-atoll-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, o.size+1))
	if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	if n != o.size || hex.EncodeToString(hash.Sum(nil)) != o.id {
		return fmt.Errorf("%w: its content has another hash or size", ErrUnsafe)
	}
	return os.Rename(out.Name(), to)
}

// refreshIndex makes the index know that files which the user's filters made are unchanged. The commands that follow run
// without filters, and would take them for changed.
//
// Git trusts the size and time of a file only if the file is older than the index by seconds, and otherwise reads it: so this
// waits up to a second until they are.
func (r *Repo) refreshIndex(ctx context.Context) error {
	if err := r.waitForOlderFiles(ctx); err != nil {
		return err
	}
	_, _, err := r.host.runStatus(ctx, "update-index", "-q", "--force-write-index", "--refresh") // exit status 1: there are changes
	return err
}

// waitForOlderFiles waits until the second is over in which a file of git-lfs was changed last. A time in the future is not
// waited for.
func (r *Repo) waitForOlderFiles(ctx context.Context) error {
	out, err := r.host.withEnv("GIT_LITERAL_PATHSPECS=0").runOutput(ctx, "ls-files", "-z", "--", ":(top,attr:filter=lfs)")
	if err != nil {
		return err
	}
	now := time.Now()
	var newest time.Time
	for _, name := range splitTerminated(out, "\x00") {
		info, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(name)))
		if err == nil && info.ModTime().After(newest) && !info.ModTime().After(now) {
			newest = info.ModTime()
		}
	}
	const tick = 20 * time.Millisecond // the clock of a file system is late by up to a tick of the kernel's timer
	wait := newest.Truncate(time.Second).Add(time.Second + tick).Sub(now)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// checkOutLFSFiles replaces pointers in the host's working tree, which an update wrote without filters, with the objects of
// the host's store, as git-lfs does. It changes a file only if it still is the pointer, and only if the user's git uses git-lfs.
func (r *Repo) checkOutLFSFiles(ctx context.Context, store, from, to string) error {
	if smudge, err := r.readConfig(ctx, "filter.lfs.smudge"); err != nil || smudge == "" {
		return err
	}
	q := r.checkedObjects()
	changes, err := q.listChanges(ctx, from, to)
	if err != nil {
		return err
	}
	var blobs []string
	for _, c := range changes {
		if c.mode == "100644" || c.mode == "100755" {
			blobs = append(blobs, c.object)
		}
	}
	pointers, err := q.readLFSPointers(ctx, blobs)
	if err != nil || len(pointers) == 0 {
		return err
	}
	files := make(map[string]change)
	var names []string
	for _, c := range changes {
		if _, ok := pointers[c.object]; ok && strings.HasPrefix(c.mode, "100") {
			files[c.name], names = c, append(names, c.name)
		}
	}
	out, err := r.host.runWithInput(ctx, joinNUL(names), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return err
	}
	var index strings.Builder
	parts := splitTerminated(out, "\x00")
	for i := 0; i+2 < len(parts); i += 3 {
		c, ok := files[parts[i]]
		if !ok || parts[i+2] != "lfs" {
			continue
		}
		if err := r.checkOutLFSFile(store, c.name, pointers[c.object]); err != nil {
			return fmt.Errorf("LFS file %s: %w", printable(c.name), err)
		}
		index.WriteString(c.mode + " " + c.object + " 0\t" + c.name + "\x00")
	}
	// Git forgets the sizes of the pointers. Otherwise it would take the files for changed without reading them.
	_, err = r.host.runWithInput(ctx, index.String(), "update-index", "-z", "--index-info")
	return err
}

// checkOutLFSFile replaces one pointer. It follows no link out of the working tree.
func (r *Repo) checkOutLFSFile(store, name string, o lfsObject) (err error) {
	object, err := os.Open(filepath.Join(store, filepath.FromSlash(o.storePath())))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // 'git lfs pull' gets it
	}
	if err != nil {
		return err
	}
	defer func() { _ = object.Close() }()
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer joinClose(&err, root.Close)
	name = filepath.FromSlash(name)
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLFSPointer {
		return nil //nolint:nilerr // it is something else by now
	}
	now, err := root.ReadFile(name)
	if is, ok := parseLFSPointer(string(now)); err != nil || !ok || is != o {
		return err
	}
	temp := filepath.Join(filepath.Dir(name), ".atoll-"+rand.Text()+".tmp") // another one each time: a killed process may leave it
	out, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, object)
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		err = errors.Join(r.wrapDiskFullError(err), root.Remove(temp))
	}
	return err
}

// sendLFS sends the LFS objects to which revisions point and which the host's store has, and sets the filter for them, if a
// commit uses git-lfs. revs are lines for 'git rev-list --stdin'.
func (r *Repo) sendLFS(ctx context.Context, g guest, git host, commit, revs string, args ...string) error {
	uses, err := git.usesLFS(ctx, commit)
	if err != nil || !uses {
		return err
	}
	if err := g.configureLFS(ctx); err != nil {
		return err
	}
	store, exists, err := r.lfsStore(ctx)
	if err != nil || !exists {
		return err
	}
	list, err := git.listLFSObjects(ctx, revs, args...)
	if err != nil || len(list) == 0 {
		return err
	}
	return runPiped(ctx, func(_ context.Context, w io.Writer) error {
		return writeLFSTar(w, store, list)
	}, func(ctx context.Context, in io.Reader) error {
		return g.sb.Import(ctx, path.Join(g.dir, ".git"), in)
	})
}
