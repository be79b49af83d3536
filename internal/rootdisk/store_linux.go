package rootdisk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/qcow2"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// VirtualSize is that of every disk, in bytes: file systems are smaller where
// less is asked for. So any machine's disk fits the saved state of any other's.
const VirtualSize = 64 << 30

// Store keeps disks in a directory: bases/, uses/ and disks/ below it.
type Store struct {
	Dir string // made when it is needed
}

const (
	basesDir = "bases"
	usesDir  = "uses"
	disksDir = "disks"

	baseSuffix = ".ext4"
	lockSuffix = ".lock"
	freshName  = ".new-" // what is on its way in
	goneName   = ".gone-"
	lockName   = "lock" // of the bases
)

// Base is a disk that others lie over: raw, never written to.
type Base struct {
	Path   string       `json:"path"`
	Digest string       `json:"digest"`          // "sha256:…" of what it was made of
	Used   int64        `json:"used"`            // bytes of its file system that are taken
	Config image.Config `json:"config,omitzero"` // of the image
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// open makes the directories and takes the lock of the bases: Shared while they
// are made and used, Exclusive while some are removed.
func (s *Store) open(ctx context.Context, how int) (unlock func(), err error) {
	for _, dir := range []string{basesDir, usesDir} {
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return nil, fmt.Errorf("disks: %w", full(err))
		}
	}
	return filelock.Wait(ctx, s.path(basesDir, lockName), how)
}

// Share lets a second user use what a first one uses, such as a fork.
func (s *Store) Share(ctx context.Context, from, to string) (Base, error) {
	unlock, err := s.open(ctx, filelock.Shared)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	b, err := s.Used(from)
	if err != nil {
		return Base{}, err
	}
	return b, s.keepUse(to, b)
}

func (s *Store) keepUse(user string, b Base) error {
	path, err := s.usePath(user)
	if err != nil {
		return err
	}
	return writeJSON(path, b)
}

// Used returns what a user uses; nothing is ErrNotFound.
func (s *Store) Used(user string) (Base, error) {
	path, err := s.usePath(user)
	if err != nil {
		return Base{}, err
	}
	var b Base
	if err := readJSON(path, &b); err != nil {
		return Base{}, fmt.Errorf("base disk of %s: %w", user, err)
	}
	b.Path = s.path(basesDir, filepath.Base(b.Path)) // the home may have moved
	return b, nil
}

// Users returns who uses base disks.
func (s *Store) Users() ([]string, error) {
	entries, err := os.ReadDir(s.path(usesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var users []string
	for _, e := range entries {
		if user, ok := strings.CutSuffix(e.Name(), ".json"); ok && !strings.HasPrefix(user, ".") {
			users = append(users, user)
		}
	}
	return users, err
}

// Release ends a use. Twice is fine.
func (s *Store) Release(user string) error {
	path, err := s.usePath(user)
	if err != nil {
		return err
	}
	return ignore(os.Remove(path), fs.ErrNotExist)
}

func (s *Store) usePath(user string) (string, error) {
	if user == "" || strings.ContainsAny(user, "/\x00") || strings.HasPrefix(user, ".") {
		return "", fmt.Errorf("%w: a user named %q", atoll.ErrInvalid, user)
	}
	return s.path(usesDir, user+".json"), nil
}

// Collect removes the base disks that nobody uses and no image in the store of
// images is made of, and what makers that died have left. images may be nil: then
// all that nobody uses.
func (s *Store) Collect(ctx context.Context, images *image.Store) error {
	unlock, err := s.open(ctx, filelock.Exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	keep, err := s.wanted(ctx, images)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.path(basesDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != lockName && !slices.Contains(keep, e.Name()) {
			errs = append(errs, ignore(os.Remove(s.path(basesDir, e.Name())), fs.ErrNotExist))
		}
	}
	return errors.Join(append(errs, s.sweep())...)
}

// Sweep removes what makers of disks that died have half written of their uses, if
// nobody is at work here; else that is left to the next time.
func (s *Store) Sweep() error {
	left, err := filepath.Glob(s.path(usesDir, whole.Pattern))
	if err != nil || len(left) == 0 {
		return err
	}
	f, err := os.OpenFile(s.path(basesDir, lockName), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ignore(err, fs.ErrNotExist)
	}
	defer f.Close()
	if alone, err := filelock.Try(f); err != nil || !alone {
		return err
	}
	return s.sweep()
}

// sweep is Sweep of who has the lock of the bases for himself.
func (s *Store) sweep() error {
	left, err := filepath.Glob(s.path(usesDir, whole.Pattern))
	errs := []error{err}
	for _, path := range left {
		errs = append(errs, ignore(os.Remove(path), fs.ErrNotExist))
	}
	return errors.Join(errs...)
}

// wanted returns the names of the bases that stay.
func (s *Store) wanted(ctx context.Context, images *image.Store) ([]string, error) {
	users, err := s.Users()
	if err != nil {
		return nil, err
	}
	var keep []string
	for _, user := range users {
		b, err := s.Used(user)
		if errors.Is(err, atoll.ErrNotFound) { // released meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		keep = append(keep, filepath.Base(b.Path))
	}
	if images == nil {
		return keep, nil
	}
	list, err := images.Images(ctx)
	if err != nil {
		return nil, err
	}
	for _, im := range list {
		root, err := images.Resolve(ctx, im.Ref)
		if errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		keep = append(keep, keyOf(root.Layers)+baseSuffix)
	}
	return keep, nil
}

// Chain returns a machine's disk and what lies beneath it, the top first: base
// disks, and files of its own directory whose names begin as its does, such as
// disk.1.qcow2 beneath disk.qcow2; anything else is ErrInvalid. They are found by
// their names there, so a home that has moved has its disks still.
func (s *Store) Chain(file string) ([]qcow2.Layer, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	bases, err := filepath.Abs(s.path(basesDir))
	if err != nil {
		return nil, err
	}
	return qcow2.Chain(file, qcow2.Qcow2, func(beneath string) (string, bool) {
		name := filepath.Base(beneath)
		if filepath.Base(filepath.Dir(beneath)) == basesDir && strings.HasSuffix(name, baseSuffix) {
			return filepath.Join(bases, name), true
		}
		own := filepath.Join(filepath.Dir(file), name)
		return own, own != file && strings.HasPrefix(name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	})
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
	return full(whole.Replace(path, b, 0o600))
}

// syncDir makes the names of a directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}

// full says that a full disk is one.
func full(err error) error {
	if !errors.Is(err, atoll.ErrQuota) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
