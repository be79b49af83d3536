package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/jsondir"
)

// Store stores images in a directory. It is safe for concurrent use by any number of processes and
// goroutines.
type Store struct {
	Dir    string // created if it is missing
	Limits Limits
}

// Directories below Dir: layers/HEX by the digest of a layer's uncompressed archive,
// images/HEX.json by the hash of an image's name, uses/ID.json by the user of an image, and
// parts/HEX for downloads. The file "lock" is locked shared while images are installed and used,
// and exclusive while something is removed.
const (
	layersDir = "layers"
	imagesDir = "images"
	usesDir   = "uses"
	partsDir  = "parts"
)

// Names of temporary files and directories of imports in partsDir.
const (
	spoolPattern  = "import-*"
	unpackPattern = "unpacking-*"
)

// record is the stored description of an image.
type record struct {
	Image  atoll.Image `json:"image"`
	Config Config      `json:"config"`
	Layers []string    `json:"layers"` // topmost first, in hexadecimal
}

func (s *Store) pathTo(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// lockStore makes the directories and locks the store.
func (s *Store) lockStore(ctx context.Context, how int) (unlock func(), err error) {
	for _, dir := range []string{layersDir, imagesDir, usesDir, partsDir} {
		// Layers contain set-uid files: other users must not reach them.
		if err := os.MkdirAll(s.pathTo(dir), 0o700); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	return filelock.Acquire(ctx, s.pathTo("lock"), how)
}

// parseReference parses a reference as Docker does: "busybox" belongs to Docker Hub.
func parseReference(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: image %q: %w", atoll.ErrInvalid, ref, err)
	}
	return r, nil
}

// familiarName returns a reference in its usual short form, with its tag.
func familiarName(r name.Reference) string {
	s := r.Name()
	if rest, ok := strings.CutPrefix(s, name.DefaultRegistry+"/"); ok {
		s = strings.TrimPrefix(rest, "library/")
	}
	return s
}

// imageDir returns the directory of the records of the images, by recordName.
func (s *Store) imageDir() jsondir.Dir { return jsondir.Dir(s.pathTo(imagesDir)) }

// recordName returns the name of an image's record.
func recordName(ref name.Reference) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(ref.Name())))
}

// useDir returns the directory of the records of the images in use, by user.
func (s *Store) useDir() jsondir.Dir { return jsondir.Dir(s.pathTo(usesDir)) }

// readRecords returns the records of a directory, by name. Records that are removed meanwhile are
// left out.
func readRecords(dir jsondir.Dir) (map[string]record, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	m := make(map[string]record)
	for _, name := range names {
		var r record
		err := dir.Read(name, &r)
		if errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m[name] = r
	}
	return m, nil
}

// Images returns the installed images, sorted by name.
func (s *Store) Images(ctx context.Context) ([]atoll.Image, error) {
	all, err := readRecords(s.imageDir())
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var list []atoll.Image
	for _, r := range all {
		list = append(list, r.Image)
	}
	slices.SortFunc(list, func(a, b atoll.Image) int { return strings.Compare(a.Ref, b.Ref) })
	return list, nil
}

// Resolve returns an installed image; otherwise ErrNotFound.
func (s *Store) Resolve(ctx context.Context, ref string) (Root, error) {
	r, err := s.findRecord(ref)
	if err != nil {
		return Root{}, err
	}
	return s.rootOf(r), nil
}

func (s *Store) findRecord(ref string) (record, error) {
	parsed, err := parseReference(ref)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := s.imageDir().Read(recordName(parsed), &r); err != nil {
		return record{}, fmt.Errorf("image %s: %w", familiarName(parsed), err)
	}
	return r, nil
}

func (s *Store) rootOf(r record) Root {
	root := Root{Image: r.Image, Config: r.Config}
	for _, l := range r.Layers {
		root.Layers = append(root.Layers, s.pathTo(layersDir, l, "fs"))
	}
	return root
}

// Acquire returns an image, and protects it and its layers from removal until Release. The user is a
// file name; using an image twice counts once.
func (s *Store) Acquire(ctx context.Context, ref, user string) (Root, error) {
	if err := s.useDir().CheckName(user); err != nil {
		return Root{}, err
	}
	unlock, err := s.lockStore(ctx, filelock.Shared)
	if err != nil {
		return Root{}, err
	}
	defer unlock()
	r, err := s.findRecord(ref)
	if err != nil {
		return Root{}, err
	}
	if err := s.useDir().Write(user, r); err != nil {
		return Root{}, fmt.Errorf("image %s: %w", ref, err)
	}
	return s.rootOf(r), nil
}

// Share makes a second user, such as a fork, use the image of a first one, even if its name belongs
// to another image by now.
func (s *Store) Share(ctx context.Context, from, to string) (Root, error) {
	if err := s.useDir().CheckName(to); err != nil {
		return Root{}, err
	}
	unlock, err := s.lockStore(ctx, filelock.Shared)
	if err != nil {
		return Root{}, err
	}
	defer unlock()
	r, err := s.usedRecord(from)
	if err != nil {
		return Root{}, err
	}
	if err := s.useDir().Write(to, r); err != nil {
		return Root{}, fmt.Errorf("image of %s: %w", from, err)
	}
	return s.rootOf(r), nil
}

// ImageOf returns the image of a user.
func (s *Store) ImageOf(user string) (Root, error) {
	r, err := s.usedRecord(user)
	if err != nil {
		return Root{}, err
	}
	return s.rootOf(r), nil
}

func (s *Store) usedRecord(user string) (record, error) {
	if err := s.useDir().CheckName(user); err != nil {
		return record{}, err
	}
	var r record
	if err := s.useDir().Read(user, &r); err != nil {
		return record{}, fmt.Errorf("image of %s: %w", user, err)
	}
	return r, nil
}

// Users returns the users of images.
func (s *Store) Users() ([]string, error) { return s.useDir().Names() }

// Release ends the use of a user. Twice is no error.
func (s *Store) Release(user string) error { return s.useDir().Remove(user) }

// RemoveImage removes an image, and the layers that no other image and no user needs. An image in
// use is ErrState.
func (s *Store) RemoveImage(ctx context.Context, ref string) error {
	parsed, err := parseReference(ref)
	if err != nil {
		return err
	}
	unlock, err := s.lockStore(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := s.findRecord(ref)
	if err != nil {
		return err
	}
	uses, err := readRecords(s.useDir())
	if err != nil {
		return fmt.Errorf("image %s: %w", familiarName(parsed), err)
	}
	for user, u := range uses {
		if u.Image.Ref == r.Image.Ref && u.Image.Digest == r.Image.Digest {
			return fmt.Errorf("image %s: %w: %s uses it", familiarName(parsed), atoll.ErrState, user)
		}
	}
	if err := s.imageDir().Remove(recordName(parsed)); err != nil {
		return fmt.Errorf("image %s: %w", familiarName(parsed), err)
	}
	return s.collectUnused(uses)
}

// CollectGarbage removes unused layers, and the files of interrupted pulls.
func (s *Store) CollectGarbage(ctx context.Context) error {
	unlock, err := s.lockStore(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	uses, err := readRecords(s.useDir())
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return s.collectUnused(uses)
}

// collectUnused implements Collect. The caller holds the exclusive lock.
func (s *Store) collectUnused(uses map[string]record) error {
	images, err := readRecords(s.imageDir())
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	keep := make(map[string]bool)
	for _, m := range []map[string]record{images, uses} {
		for _, r := range m {
			for _, l := range r.Layers {
				keep[l] = true
			}
		}
	}
	var errs []error
	for _, dir := range []string{layersDir, partsDir} {
		entries, err := os.ReadDir(s.pathTo(dir))
		errs = append(errs, err)
		for _, e := range entries {
			if dir == partsDir || !keep[e.Name()] {
				errs = append(errs, removeTree(s.pathTo(dir, e.Name())))
			}
		}
	}
	errs = append(errs, s.imageDir().Sweep(), s.useDir().Sweep()) // left by killed writers
	return errors.Join(errs...)
}

// RemoveUnfinished removes what killed imports and removals have left, unless another process is active in the store. Parts of
// downloads stay: the next one goes on with them.
func (s *Store) RemoveUnfinished() error {
	var left []string
	for _, pattern := range []string{spoolPattern, unpackPattern} {
		list, err := filepath.Glob(s.pathTo(partsDir, pattern))
		if err != nil {
			return err
		}
		left = append(left, list...)
	}
	records, err1 := s.imageDir().Unfinished()
	uses, err2 := s.useDir().Unfinished()
	if err := errors.Join(err1, err2); err != nil || len(left)+len(records)+len(uses) == 0 {
		return err
	}
	f, err := os.OpenFile(s.pathTo("lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ignoreError(err, fs.ErrNotExist)
	}
	defer f.Close()
	if alone, err := filelock.Try(f); err != nil || !alone {
		return err
	}
	errs := []error{s.imageDir().Sweep(), s.useDir().Sweep()}
	for _, path := range left {
		errs = append(errs, removeTree(path))
	}
	return errors.Join(errs...)
}

// removeTree removes a tree, even if it has directories without write permission.
func removeTree(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) // before it is read
		}
		return err
	})
	return errors.Join(ignoreError(err, fs.ErrNotExist), os.RemoveAll(path))
}

func ignoreError(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
