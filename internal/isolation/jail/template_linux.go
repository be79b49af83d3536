package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// BuildTemplate performs steps on an empty root, once, and keeps the mounts below each of the paths:
// clones of them are in Process.Trees if StartConfig.Trees asks for them. Files are the sources of
// the steps. The template exists until DropTemplate, or until the spawner ends. It needs the
// privileges of the host's root.
func (s *Spawner) BuildTemplate(ctx context.Context, steps []Step, paths []string, files []*os.File) (id int, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	a, got, err := s.request(spawnRequest{Template: &templateConfig{Steps: steps, Paths: paths}}, files)
	fdpass.CloseAll(got)
	return a.Template, err
}

// DropTemplate removes a template. Clones remain.
func (s *Spawner) DropTemplate(id int) error {
	_, got, err := s.request(spawnRequest{Drop: id}, nil)
	fdpass.CloseAll(got)
	return err
}

// templateStore keeps templates in a mount namespace of its own. One thread of the spawner is in it.
type templateStore struct {
	calls chan func() // executed by that thread
	err   error       // why there is no such thread; set before calls are served

	last  int
	trees map[Tree]int // descriptors of the roots of trees, by template and path
}

// newTemplateStore starts the thread, which lasts as long as the process.
func newTemplateStore() *templateStore {
	t := &templateStore{calls: make(chan func()), trees: make(map[Tree]int)}
	go func() {
		runtime.LockOSThread()
		t.err = enterTemplateNamespace()
		for f := range t.calls {
			f()
		}
	}()
	return t
}

// templateStaging is the mount point of the staging tmpfs in the namespace of the templates: one of
// those that the builder looks for.
const templateStaging = "/srv"

// enterTemplateNamespace gives the calling thread a mount namespace with nothing but an empty root, so
// that no mount of the host is kept busy.
func enterTemplateNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("making mounts private", err)
	}
	tree, err := createMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode", "700", "size", "1048576")
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	if err := pivotRoot(tree); err != nil {
		return err
	}
	return os.NewSyscallError("mkdir", unix.Mkdir(templateStaging, 0o700))
}

// call calls f on the thread of the templates.
func (t *templateStore) call(f func() error) error {
	done := make(chan error, 1)
	t.calls <- func() {
		if t.err != nil {
			done <- fmt.Errorf("mount namespace of the templates: %w", t.err)
			return
		}
		done <- f()
	}
	return <-done
}

// build builds a template and returns its number.
func (t *templateStore) build(c *templateConfig, files []*os.File) (id int, err error) {
	err = t.call(func() error {
		t.last++
		id = t.last
		err := t.buildTrees(id, c, files)
		if err != nil {
			err = errors.Join(err, t.removeTrees(id))
		}
		return err
	})
	return id, err
}

// templateDir is the mount point of a template.
func templateDir(id int) string { return "/" + strconv.Itoa(id) }

func (t *templateStore) buildTrees(id int, c *templateConfig, files []*os.File) error {
	if err := unix.Mkdir(templateDir(id), 0o755); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	root, err := createMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "mode", "755", "size", "1048576")
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, templateDir(id), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	defer unix.Umask(unix.Umask(0)) // files get the modes of their steps
	b := &builder{in: &InitProcess{files: files}, root: root, empty: -1, null: -1}
	defer b.close()
	err = b.runSteps(c.Steps)
	if b.empty >= 0 {
		err = errors.Join(err, os.NewSyscallError("umount", unix.Unmount(templateStaging, unix.MNT_DETACH))) // the trees have mounts of its files
	}
	for _, p := range c.Paths {
		if err != nil {
			return err
		}
		var fd int
		if fd, err = b.open(p, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS); err == nil {
			t.trees[Tree{id, p}] = fd
		}
	}
	return err
}

// drop removes a template.
func (t *templateStore) drop(id int) error {
	return t.call(func() error { return t.removeTrees(id) })
}

// removeTrees unmounts a template. One that does not exist is no error.
func (t *templateStore) removeTrees(id int) error {
	for tree, fd := range t.trees {
		if tree.Template == id {
			_ = unix.Close(fd) // O_PATH: nothing to lose
			delete(t.trees, tree)
		}
	}
	err := unix.Unmount(templateDir(id), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // it was never mounted
		err = nil
	}
	if rerr := unix.Rmdir(templateDir(id)); err == nil && !errors.Is(rerr, unix.ENOENT) {
		err = rerr
	}
	return os.NewSyscallError("removing a template", err)
}

// clone returns detached clones of trees, one for each.
func (t *templateStore) clone(list []Tree) (files []*os.File, err error) {
	err = t.call(func() error {
		for _, tree := range list {
			root, ok := t.trees[tree]
			if !ok {
				return fmt.Errorf("template %d has no tree %s", tree.Template, tree.Path)
			}
			fd, err := unix.OpenTree(root, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return fmt.Errorf("%s: %w", tree.Path, os.NewSyscallError("open_tree", err))
			}
			files = append(files, os.NewFile(uintptr(fd), tree.Path))
		}
		return nil
	})
	if err != nil {
		fdpass.CloseAll(files)
		return nil, err
	}
	return files, nil
}
