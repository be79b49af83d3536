package guest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Limits of a walk.
const (
	maxLinks = 40  // as in the kernel
	maxDepth = 256 // nested directories: each needs a descriptor
)

// walker finds files. It resolves each component of a path itself, so that
//   - it never enters /proc, which exposes the memory and descriptors of this process;
//   - a process that races it can only affect files that it could change anyway;
//   - after a symbolic link of another user it continues with the rights of that user: a program
//     can't do more with a planted link than it could do itself.
//
// The descriptors it returns belong to it until it moves on or is closed.
type walker struct {
	s        *Server
	stack    []node // from the top down; never empty
	confined bool   // leaving the top is an error; otherwise ".." at the top stays there, as in /
	links    int    // links followed for this path
	assumed  bool   // this walker has switched the thread to another user
	keepUser bool   // the assumed user stays for all further walks
	nested   bool   // another walker has switched the thread to another user
	groups   []int  // supplementary groups before the switch
	steps    int    // components of paths opened so far
}

// node is a directory on the current path.
type node struct {
	fd  int
	dev uint64
}

// newWalker returns a walker at the root directory. The same goroutine must close it.
func (s *Server) newWalker() (*walker, error) {
	w := &walker{s: s}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	w.stack = append(w.stack, node{fd, st.Dev})
	return w, nil
}

// confineToDir makes the current directory the top that the walker can't leave, and keeps the user
// with which it was reached.
func (w *walker) confineToDir() {
	last := len(w.stack) - 1
	for _, n := range w.stack[:last] {
		_ = unix.Close(n.fd)
	}
	w.stack = append(w.stack[:0], w.stack[last])
	w.confined, w.keepUser = true, w.assumed
}

// cloneAtTop returns a second walker with the same top for the same goroutine. It must be closed
// before w moves.
func (w *walker) cloneAtTop() (*walker, error) {
	fd, err := unix.Openat(w.stack[0].fd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &walker{s: w.s, stack: []node{{fd, w.stack[0].dev}}, confined: w.confined, nested: w.assumed || w.nested}, nil
}

// close closes all descriptors and restores the user.
func (w *walker) close() {
	for _, n := range w.stack {
		_ = unix.Close(n.fd)
	}
	w.stack = nil
	w.restoreUser()
}

// currentFD returns the descriptor of the current directory. It may be usable only in *at calls.
func (w *walker) currentFD() int { return w.stack[len(w.stack)-1].fd }

// reset returns to the top, with the rights of this process.
func (w *walker) reset() {
	for len(w.stack) > 1 {
		w.pop()
	}
	w.links = 0
	if !w.keepUser {
		w.restoreUser()
	}
}

func (w *walker) pop() {
	_ = unix.Close(w.currentFD())
	w.stack = w.stack[:len(w.stack)-1]
}

// pathEnd determines how a walk handles the last component of a path.
type pathEnd int

const (
	asName      pathEnd = iota // don't resolve it
	asTarget                   // follow it if it is a link
	asDirectory                // step into it
)

// walkTo walks from the top to a path. It returns the name of the last component within the then
// current directory, or "." for that directory itself. The last component may be missing, unless
// it is to be entered.
func (w *walker) walkTo(name string, end pathEnd) (string, error) {
	w.reset()
	todo := splitPath(name)
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		if c == ".." {
			if err := w.moveUp(); err != nil {
				return "", err
			}
			continue
		}
		last := len(todo) == 0
		if last && end == asName {
			return c, nil
		}
		target, err := w.stepInto(c, last && end == asTarget)
		switch {
		case errors.Is(err, errLast):
			return c, nil
		case err != nil:
			return "", err
		case target == "":
			continue
		}
		if strings.HasPrefix(target, "/") {
			if err := w.moveToTop(); err != nil {
				return "", err
			}
		}
		if todo = append(splitPath(target), todo...); len(todo) > 4*maxDepth {
			return "", unix.ENAMETOOLONG
		}
	}
	return ".", nil
}

// splitPath returns the components of a path.
func splitPath(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// errLast reports that the last component of a path was found.
var errLast = errors.New("the last component")

// stepInto steps into a directory, or returns the target of a link. With last, the component may
// also be missing or another kind of file, which it reports as errLast.
func (w *walker) stepInto(c string, last bool) (target string, err error) {
	w.steps++
	fd, err := unix.Openat(w.currentFD(), c, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if last && err == unix.ENOENT { //nolint:errorlint // a system call's errno
			return "", errLast
		}
		return "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err = w.followLink(fd, &st)
		case unix.S_IFDIR:
			if last {
				err = errLast
			} else {
				return "", w.push(fd, st.Dev)
			}
		default:
			err = unix.ENOTDIR
			if last {
				err = errLast
			}
		}
	}
	_ = unix.Close(fd)
	return target, err
}

// push makes a directory the current one. It takes ownership of the descriptor.
func (w *walker) push(fd int, dev uint64) error {
	err := error(nil)
	if len(w.stack) >= maxDepth {
		err = unix.ENAMETOOLONG
	}
	if err == nil && dev != w.stack[len(w.stack)-1].dev {
		err = refuseProc(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.stack = append(w.stack, node{fd, dev})
	return nil
}

// refuseProc returns an error for files of /proc.
func refuseProc(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if st.Type == unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("%w: /proc would expose the guest agent: run a command to read it", atoll.ErrDenied)
	}
	return nil
}

// followLink returns the target of a link and assumes the rights of its owner.
func (w *walker) followLink(fd int, st *unix.Stat_t) (string, error) {
	if w.links++; w.links > maxLinks {
		return "", unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "", unix.ENOENT
	}
	if err := w.assumeUser(st.Uid, st.Gid); err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// errOutside reports a link or a name that leaves the top of a confined walk.
var errOutside = newInvalid("it leads outside")

func (w *walker) moveUp() error {
	if len(w.stack) > 1 {
		w.pop()
	} else if w.confined {
		return errOutside
	}
	return nil
}

func (w *walker) moveToTop() error {
	if w.confined {
		return errOutside
	}
	for len(w.stack) > 1 {
		w.pop()
	}
	return nil
}

// assumeUser gives this thread the rights of a user for files, until restoreUser. If this process
// can't switch users, it is that user already, or the isolation separates them.
func (w *walker) assumeUser(uid, gid uint32) error {
	if !w.s.Config.CanSwitchUser || w.assumed || w.nested || int(uid) == unix.Getuid() {
		return nil
	}
	if int(uid) == w.s.Config.UID {
		gid = uint32(w.s.Config.GID)
	}
	var err error
	if w.groups, err = unix.Getgroups(); err != nil {
		return err
	}
	runtime.LockOSThread()
	w.assumed = true
	if err := setGroups(nil); err != nil && len(w.groups) > 0 {
		return fmt.Errorf("%w: groups stay: %w", atoll.ErrDenied, err)
	}
	return setFileUser(int(uid), int(gid))
}

// restoreUser restores the rights of this process. If that fails the thread is not reused.
func (w *walker) restoreUser() {
	if !w.assumed {
		return
	}
	w.assumed = false
	err := setFileUser(unix.Getuid(), unix.Getgid())
	if len(w.groups) > 0 {
		err = errors.Join(err, setGroups(w.groups))
	}
	if err == nil {
		runtime.UnlockOSThread()
	}
}

// setFileUser sets the user and group of this thread for access to files.
func setFileUser(uid, gid int) error {
	if _, err := unix.SetfsgidRetGid(gid); errors.Is(err, unix.ENOSYS) {
		return setEffective(uid, gid) // gVisor
	}
	_, _ = unix.SetfsuidRetUid(uid) // returns the previous value and never an error, so the result is read back
	g, _ := unix.SetfsgidRetGid(-1)
	u, _ := unix.SetfsuidRetUid(-1)
	if u != uid || g != gid {
		return fmt.Errorf("%w: can't act as user %d", atoll.ErrDenied, uid)
	}
	return nil
}
