package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Size is the size of a directory tree.
type Size struct {
	Bytes    int64 // of all files; those with several names count once
	Files    int   // files, directories and other entries, without the directory itself
	Complete bool  // everything was counted
	TooDeep  bool  // the rest is nested too deeply
}

// MaxDepth is the largest nesting of directories: as many are open during a walk.
const MaxDepth = 128

// namesPerRead is the number of names read from a directory at once.
const namesPerRead = 512

// Measure counts the content of a directory, until ctx is done.
func Measure(ctx context.Context, root *os.Root) Size {
	s := Size{Complete: true}
	s.addDir(ctx, root, 0)
	return s
}

// addDir adds the content of one directory. What is removed meanwhile is not counted.
func (s *Size) addDir(ctx context.Context, dir *os.Root, depth int) {
	if depth == MaxDepth {
		s.Complete, s.TooDeep = false, true
		return
	}
	err := ForEachName(dir, ".", func(name string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return nil
		}
		s.Files++
		switch {
		case info.Mode().IsRegular():
			_, n := linkInfo(info)
			s.Bytes += info.Size() / max(n, 1) // its other names count the rest
		case info.IsDir():
			sub, err := OpenDir(dir, name)
			if err != nil {
				s.Complete = s.Complete && errors.Is(err, fs.ErrNotExist)
				return nil
			}
			s.addDir(ctx, sub, depth+1)
			return sub.Close()
		}
		return nil
	})
	s.Complete = s.Complete && err == nil
}

// ForEachName calls f for every name in a directory beneath root, unsorted. It holds only
// namesPerRead names in memory.
func ForEachName(root *os.Root, dir string, f func(name string) error) error {
	d, err := OpenFile(root, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	for {
		names, err := d.Readdirnames(namesPerRead)
		for _, n := range names {
			if err := f(n); err != nil {
				return errors.Join(err, d.Close())
			}
		}
		if err != nil {
			return errors.Join(ignoreEOF(err), d.Close())
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ReclaimableSize returns the size of a file that its removal frees: 0 for one with other names.
func ReclaimableSize(info fs.FileInfo) int64 {
	if _, n := linkInfo(info); n > 1 || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
