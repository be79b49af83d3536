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

// Bounds of a walk.
const (
	maxLinks = 40  // as the kernel has it
	maxDepth = 256 // directories below each other: each is a descriptor
)

// walker finds files. It looks at each component of a path itself, so that
//   - nothing of /proc is reached, where this process shows its memory and its
//     descriptors: links there are text to it, and the way ends at the door;
//   - whoever races it moves what it may move and nothing else;
//   - where it goes through a link that somebody other than this process has
//     made, it goes on with the rights of who made it: a program gets nothing
//     done through a planted link that it couldn't do itself.
//
// The descriptors it gives belong to it until it moves on or is closed.
type walker struct {
	s       *Server
	stack   []node // from the top down; never empty
	beneath bool   // what leads out of the top is an error; else it leads to the top, as in /
	links   int    // followed for this path
	lent    bool   // this thread has another's rights, by this walker
	kept    bool   // and for all that comes
	within  bool   // it has them by another walker
	groups  []int  // what it had
}

// node is a directory on the way.
type node struct {
	fd  int
	dev uint64
}

// walk returns a walker at the root directory. Its goroutine closes it.
func (s *Server) walk() (*walker, error) {
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

// confine makes the present directory the top that is not left any more, and
// the rights that it was reached with those that are not passed any more.
func (w *walker) confine() {
	last := len(w.stack) - 1
	for _, n := range w.stack[:last] {
		_ = unix.Close(n.fd)
	}
	w.stack = append(w.stack[:0], w.stack[last])
	w.beneath, w.kept = true, w.lent
}

// twin returns a walker with the same top, for the same goroutine. It is closed
// before w moves.
func (w *walker) twin() (*walker, error) {
	fd, err := unix.Openat(w.stack[0].fd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &walker{s: w.s, stack: []node{{fd, w.stack[0].dev}}, beneath: w.beneath, within: w.lent || w.within}, nil
}

// close lets go of all it has.
func (w *walker) close() {
	for _, n := range w.stack {
		_ = unix.Close(n.fd)
	}
	w.stack = nil
	w.giveBack()
}

// at returns the present directory, which may be good for nothing but *at
// calls.
func (w *walker) at() int { return w.stack[len(w.stack)-1].fd }

// reset goes back to the top, with this process's own rights.
func (w *walker) reset() {
	for len(w.stack) > 1 {
		w.pop()
	}
	w.links = 0
	if !w.kept {
		w.giveBack()
	}
}

func (w *walker) pop() {
	_ = unix.Close(w.at())
	w.stack = w.stack[:len(w.stack)-1]
}

// ending says what a walk does with the last component of a path.
type ending int

const (
	asName      ending = iota // don't look: the name in its directory is what is wanted
	asTarget                  // follow it where it is a link
	asDirectory               // enter it
)

// to goes to a path from the top and returns the name of the last component in
// the directory where the walk then is: "." for that directory itself. The last
// component needn't be there, unless it is to be entered.
func (w *walker) to(name string, end ending) (string, error) {
	w.reset()
	todo := parts(name)
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		if c == ".." {
			if err := w.up(); err != nil {
				return "", err
			}
			continue
		}
		last := len(todo) == 0
		if last && end == asName {
			return c, nil
		}
		target, err := w.step(c, last && end == asTarget)
		switch {
		case errors.Is(err, errLast):
			return c, nil
		case err != nil:
			return "", err
		case target == "":
			continue
		}
		if strings.HasPrefix(target, "/") {
			if err := w.home(); err != nil {
				return "", err
			}
		}
		if todo = append(parts(target), todo...); len(todo) > 4*maxDepth {
			return "", unix.ENAMETOOLONG
		}
	}
	return ".", nil
}

// parts returns the components of a path.
func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// errLast says that the last component of a path is found.
var errLast = errors.New("the last component")

// step enters a directory, or returns where a link leads. If it is the last
// that is left, it may be something else, or not there.
func (w *walker) step(c string, last bool) (target string, err error) {
	fd, err := unix.Openat(w.at(), c, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if last && err == unix.ENOENT { //nolint:errorlint // it is the kernel's own
			return "", errLast
		}
		return "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err = w.follow(fd, &st)
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

// push goes on in a directory. The descriptor is the walker's, or closed.
func (w *walker) push(fd int, dev uint64) error {
	err := error(nil)
	if len(w.stack) >= maxDepth {
		err = unix.ENAMETOOLONG
	}
	if err == nil && dev != w.stack[len(w.stack)-1].dev {
		err = fenced(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.stack = append(w.stack, node{fd, dev})
	return nil
}

// fenced refuses files of /proc.
func fenced(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if st.Type == unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("%w: /proc shows the guest itself: run a command to read it", atoll.ErrDenied)
	}
	return nil
}

// follow returns where a link leads, and takes on the rights of its owner.
func (w *walker) follow(fd int, st *unix.Stat_t) (string, error) {
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
	if err := w.lend(st.Uid, st.Gid); err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// errOutside says that a link or a name leads out of where the walk is to stay.
var errOutside = refuse("it leads outside")

func (w *walker) up() error {
	if len(w.stack) > 1 {
		w.pop()
	} else if w.beneath {
		return errOutside
	}
	return nil
}

func (w *walker) home() error {
	if w.beneath {
		return errOutside
	}
	for len(w.stack) > 1 {
		w.pop()
	}
	return nil
}

// lend gives this thread the rights over files that a user has, until
// giveBack. Where this process can't become others it is that user already, or
// the walls keep both apart.
func (w *walker) lend(uid, gid uint32) error {
	if !w.s.Config.Switch || w.lent || w.within || int(uid) == unix.Getuid() {
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
	w.lent = true
	if err := setGroups(nil); err != nil && len(w.groups) > 0 {
		return fmt.Errorf("%w: groups stay: %w", atoll.ErrDenied, err)
	}
	return setFileUser(int(uid), int(gid))
}

// giveBack returns to this process's own rights. A thread that can't is not
// used again.
func (w *walker) giveBack() {
	if !w.lent {
		return
	}
	w.lent = false
	err := setFileUser(unix.Getuid(), unix.Getgid())
	if len(w.groups) > 0 {
		err = errors.Join(err, setGroups(w.groups))
	}
	if err == nil {
		runtime.UnlockOSThread()
	}
}

// setFileUser sets whose rights over files this thread has.
func setFileUser(uid, gid int) error {
	if _, err := unix.SetfsgidRetGid(gid); errors.Is(err, unix.ENOSYS) {
		return setEffective(uid, gid) // on gVisor's kernel
	}
	_, _ = unix.SetfsuidRetUid(uid) // it returns what was, never an error: so it is asked
	g, _ := unix.SetfsgidRetGid(-1)
	u, _ := unix.SetfsuidRetUid(-1)
	if u != uid || g != gid {
		return fmt.Errorf("%w: can't act as user %d", atoll.ErrDenied, uid)
	}
	return nil
}
