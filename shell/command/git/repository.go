// Package git holds the command git: repositories in the virtual file system, which other gits can read.
package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// repository is an opened repository.
type repository struct {
	p      *kernel.Proc
	root   string // of the working tree; "" in a bare repository
	dir    string // .git, or the directory of a linked working tree below it
	common string // .git
	conf   config

	badConfig error // of the configuration that was read

	dirs        []string // of objects
	packs       []*pack
	packsLoaded bool
	packedRefs  map[string]id
	kinds       map[id]string
	commits     map[id]*commit
	shallow     map[id]bool
	shallowRead bool
	attributes  map[string][]attributeRule // of each file with rules that was read
	conflicts   map[string]conflict        // unmerged files of the index that was read last
	modes       index                      // has the modes of files if the working tree has none (core.fileMode)
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

// openRepository finds the repository of the working directory, or the one that $GIT_DIR names.
func openRepository(p *kernel.Proc) (*repository, error) {
	if dir := p.Getenv("GIT_DIR"); dir != "" {
		r := openGitDir(p, p.Path(dir))
		if r == nil {
			return nil, newFatal("not a git repository: '%s'", dir)
		}
		root, err := p.Resolve(orDefault(p.Getenv("GIT_WORK_TREE"), "."))
		if err != nil {
			return nil, err
		}
		if r.root = root; r.conf.isTrue("core.bare") && p.Getenv("GIT_WORK_TREE") == "" {
			r.root = ""
		}
		return r, nil
	}
	dir, err := p.Resolve(".")
	if err != nil {
		return nil, newFatal("Unable to read current working directory: %s", program.Reason(err))
	}
	for {
		if r := openAt(p, dir); r != nil {
			return r, nil
		}
		if dir == "/" {
			return nil, newFatal("not a git repository (or any of the parent directories): .git")
		}
		dir = path.Dir(dir)
	}
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// openAt opens the repository whose working tree is a directory, or that is a directory itself; nil if there
// is none.
func openAt(p *kernel.Proc, dir string) *repository {
	git := path.Join(dir, ".git")
	info, err := p.Stat(git)
	if err == nil && !info.IsDir() {
		b, err := p.ReadFile(git)
		target, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
		if err != nil || !ok {
			return nil
		}
		if git = target; git[0] != '/' {
			git = path.Join(dir, target)
		}
	}
	if err == nil {
		if r := openGitDir(p, git); r != nil {
			r.root = dir
			return r
		}
	}
	if r := openGitDir(p, dir); r != nil {
		if path.Base(dir) == ".git" && !r.conf.isTrue("core.bare") {
			r.root = ""
		}
		return r
	}
	return nil
}

// openGitDir opens a repository by its own directory; nil if it is not one.
func openGitDir(p *kernel.Proc, dir string) *repository {
	r := &repository{p: p, dir: dir, common: dir}
	if b, err := p.ReadFile(dir + "/commondir"); err == nil {
		if r.common = strings.TrimSpace(string(b)); !strings.HasPrefix(r.common, "/") {
			r.common = path.Join(dir, r.common)
		}
	}
	if _, err := p.Lstat(dir + "/HEAD"); err != nil {
		return nil
	}
	for _, name := range []string{"/objects", "/refs"} {
		if info, err := p.Stat(r.common + name); err != nil || !info.IsDir() {
			return nil
		}
	}
	r.conf, r.badConfig = readConfig(p, r.dir, r.common)
	return r
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
	if e, ok := r.modes[name]; ok && e.mode&0o170000 == 0o100000 {
		mode = e.mode
	} else if r.modes == nil && info.Mode()&0o100 != 0 {
		mode = 0o100755
	}
	if err == nil {
		b, err = r.cleanLines(name, b)
	}
	return b, mode, err
}

// writeWorkFile creates or replaces a file of the working tree. Links in the directories above it are
// replaced by directories, so that nothing is written through them.
func (r *repository) writeWorkFile(name string, e treeEntry) error {
	r.attributeFiles(name)
	mark := r.p.Charged()
	defer func() { r.p.Free(r.p.Charged() - mark) }()
	_, b, err := r.readObject(e.id)
	if err != nil {
		return err
	}
	return r.writeWorkText(name, e.mode, b)
}

// writeWorkText is writeWorkFile for a text that need not be stored.
func (r *repository) writeWorkText(name string, mode uint32, b []byte) error {
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
	if mode == 0o120000 {
		return r.p.Symlink(string(b), file)
	}
	b = r.smudgeLines(name, b)
	out, err := r.p.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(mode&0o111|0o666))
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
