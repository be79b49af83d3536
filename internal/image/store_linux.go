package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// Store keeps images in a directory. Any number of processes may use it, and
// any number of goroutines.
type Store struct {
	Dir    string // made when it is needed
	Limits Limits
}

// Below Dir: layers/HEX of a layer's uncompressed content, images/HEX.json of
// an image's name, uses/ID.json of who uses one, parts/HEX of what is being
// fetched, and the lock: shared while images come and are taken, exclusive
// while something is removed.
const (
	layersDir = "layers"
	imagesDir = "images"
	usesDir   = "uses"
	partsDir  = "parts"
)

// record is an image as it is kept.
type record struct {
	Image  atoll.Image `json:"image"`
	Config Config      `json:"config"`
	Layers []string    `json:"layers"` // upper ones first, in hexadecimal
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// open makes the directories and takes the lock.
func (s *Store) open(ctx context.Context, how int) (unlock func(), err error) {
	for _, dir := range []string{layersDir, imagesDir, usesDir, partsDir} {
		// Layers hold set-uid files: nobody else gets in.
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
	}
	return filelock.Wait(ctx, s.path("lock"), how)
}

// parse reads a reference as Docker does: "busybox" is that of Docker Hub.
func parse(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: image %q: %w", atoll.ErrInvalid, ref, err)
	}
	return r, nil
}

// familiar is a reference as people write it, with its tag.
func familiar(r name.Reference) string {
	s := r.Name()
	if rest, ok := strings.CutPrefix(s, name.DefaultRegistry+"/"); ok {
		s = strings.TrimPrefix(rest, "library/")
	}
	return s
}

// recordPath is where an image's record lies.
func (s *Store) recordPath(ref name.Reference) string {
	return s.path(imagesDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(ref.Name()))))
}

// readJSON reads a file of the store; one that isn't there is ErrNotFound.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return atoll.ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON writes a file of the store, whole or not at all.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return whole.Replace(path, b, 0o600)
}

// list returns the names of a directory's finished files.
func (s *Store) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(s.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// records returns what is kept of a kind: an image's, or a use of one.
func (s *Store) records(dir string) (map[string]record, error) {
	names, err := s.list(dir)
	if err != nil {
		return nil, err
	}
	m := make(map[string]record)
	for _, n := range names {
		var r record
		err := readJSON(s.path(dir, n), &r)
		if errors.Is(err, atoll.ErrNotFound) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		m[strings.TrimSuffix(n, ".json")] = r
	}
	return m, nil
}

// Images returns what is there, by name.
func (s *Store) Images(ctx context.Context) ([]atoll.Image, error) {
	all, err := s.records(imagesDir)
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

// Resolve returns an image that is there; else ErrNotFound.
func (s *Store) Resolve(ctx context.Context, ref string) (Root, error) {
	r, err := s.find(ref)
	if err != nil {
		return Root{}, err
	}
	return s.root(r), nil
}

func (s *Store) find(ref string) (record, error) {
	parsed, err := parse(ref)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := readJSON(s.recordPath(parsed), &r); err != nil {
		return record{}, fmt.Errorf("image %s: %w", familiar(parsed), err)
	}
	return r, nil
}

func (s *Store) root(r record) Root {
	root := Root{Image: r.Image, Config: r.Config}
	for _, l := range r.Layers {
		root.Layers = append(root.Layers, s.path(layersDir, l, "fs"))
	}
	return root
}

// Use returns an image and keeps it, and its layers, from being removed until
// Release. Who uses it is named as files are; again with the same name counts
// once.
func (s *Store) Use(ctx context.Context, ref, user string) (Root, error) {
	path, err := s.usePath(user)
	if err != nil {
		return Root{}, err
	}
	unlock, err := s.open(ctx, filelock.Shared)
	if err != nil {
		return Root{}, err
	}
	defer unlock()
	r, err := s.find(ref)
	if err != nil {
		return Root{}, err
	}
	if err := writeJSON(path, r); err != nil {
		return Root{}, fmt.Errorf("image %s: %w", ref, err)
	}
	return s.root(r), nil
}

// Share lets a second user use what a first one uses, such as a fork, even
// where the image's name means another by now.
func (s *Store) Share(ctx context.Context, from, to string) (Root, error) {
	path, err := s.usePath(to)
	if err != nil {
		return Root{}, err
	}
	unlock, err := s.open(ctx, filelock.Shared)
	if err != nil {
		return Root{}, err
	}
	defer unlock()
	r, err := s.used(from)
	if err != nil {
		return Root{}, err
	}
	if err := writeJSON(path, r); err != nil {
		return Root{}, fmt.Errorf("image of %s: %w", from, err)
	}
	return s.root(r), nil
}

// Used returns the image that a user uses.
func (s *Store) Used(user string) (Root, error) {
	r, err := s.used(user)
	if err != nil {
		return Root{}, err
	}
	return s.root(r), nil
}

func (s *Store) used(user string) (record, error) {
	path, err := s.usePath(user)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := readJSON(path, &r); err != nil {
		return record{}, fmt.Errorf("image of %s: %w", user, err)
	}
	return r, nil
}

// Users returns who uses images.
func (s *Store) Users() ([]string, error) {
	names, err := s.list(usesDir)
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".json")
	}
	return names, err
}

// Release ends a use. Twice is fine.
func (s *Store) Release(user string) error {
	path, err := s.usePath(user)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Store) usePath(user string) (string, error) {
	if user == "" || strings.ContainsAny(user, "/\x00") || strings.HasPrefix(user, ".") {
		return "", fmt.Errorf("%w: a user named %q", atoll.ErrInvalid, user)
	}
	return s.path(usesDir, user+".json"), nil
}

// RemoveImage forgets an image, and removes the layers that no other image and
// nobody uses. One that is in use is ErrState.
func (s *Store) RemoveImage(ctx context.Context, ref string) error {
	parsed, err := parse(ref)
	if err != nil {
		return err
	}
	unlock, err := s.open(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := s.find(ref)
	if err != nil {
		return err
	}
	uses, err := s.records(usesDir)
	if err != nil {
		return fmt.Errorf("image %s: %w", familiar(parsed), err)
	}
	for user, u := range uses {
		if u.Image.Ref == r.Image.Ref && u.Image.Digest == r.Image.Digest {
			return fmt.Errorf("image %s: %w: %s uses it", familiar(parsed), atoll.ErrState, user)
		}
	}
	if err := os.Remove(s.recordPath(parsed)); err != nil {
		return fmt.Errorf("image %s: %w", familiar(parsed), err)
	}
	return s.collect(uses)
}

// Collect removes layers that no image and nobody uses, and what broken pulls
// left.
func (s *Store) Collect(ctx context.Context) error {
	unlock, err := s.open(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	uses, err := s.records(usesDir)
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return s.collect(uses)
}

// collect is called with the exclusive lock.
func (s *Store) collect(uses map[string]record) error {
	images, err := s.records(imagesDir)
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
		entries, err := os.ReadDir(s.path(dir))
		errs = append(errs, err)
		for _, e := range entries {
			if dir == partsDir || !keep[e.Name()] {
				errs = append(errs, discard(s.path(dir, e.Name())))
			}
		}
	}
	for _, dir := range []string{imagesDir, usesDir} { // what writeJSON left when it was killed
		left, err := filepath.Glob(s.path(dir, whole.Pattern))
		errs = append(errs, err)
		for _, path := range left {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// discard removes a tree, also one with directories that nobody may write.
func discard(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) // before it is read
		}
		return err
	})
	return errors.Join(ignore(err, fs.ErrNotExist), os.RemoveAll(path))
}

func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
