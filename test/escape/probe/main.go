//go:build linux

// Command probe tries one attack on the walls of the sandbox that it runs in and
// says whether it crossed them. It touches as little as shows it: a file that
// must not open for writing is opened and not written, a system call that must
// be refused gets arguments that do nothing.
//
// It refuses to run in the mount namespace that the test names as the host's:
// there, some of these do what they say.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Exit codes of an attack.
const (
	crossed = 0
	bad     = 2 // the attack itself could not be made
	held    = 3
)

// attack returns what it reached, or the error that held it.
type attack func() (string, error)

// errBad marks attacks that could not be made at all.
var errBad = errors.New("the attack could not be made")

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: probe HOST-MNT-NS ATTACK [ARGUMENT…]; it is started by the escape tests")
		os.Exit(bad)
	}
	if err := guard(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(bad)
	}
	name := os.Args[2]
	if name == "weak" {
		os.Exit(weak())
	}
	a, ok := attacks()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "probe: no attack %q\n", name)
		os.Exit(bad)
	}
	what, err := a()
	switch {
	case err == nil:
		fmt.Fprintf(os.Stdout, "CROSSED: %s\n", what)
		os.Exit(crossed)
	case errors.Is(err, errBad):
		fmt.Fprintf(os.Stdout, "BAD: %v\n", err)
		os.Exit(bad)
	}
	fmt.Fprintf(os.Stdout, "held: %v\n", err)
	os.Exit(held)
}

// guard refuses the mount namespace of the host, whose name the test gives.
func guard(host string) error {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("which mount namespace this is can't be read: %w", err)
	}
	if !strings.HasPrefix(host, "mnt:[") {
		return fmt.Errorf("%q names no mount namespace", host)
	}
	if mine == host {
		return errors.New("this is the host's mount namespace: attacks run in sandboxes only")
	}
	return nil
}

// argument returns the i-th argument of the attack.
func argument(i int) string {
	if len(os.Args) <= 3+i {
		fmt.Fprintf(os.Stderr, "probe: attack %s needs argument %d\n", os.Args[2], i)
		os.Exit(bad)
	}
	return os.Args[3+i]
}

// attacks returns all of them by name.
func attacks() map[string]attack {
	all := make(map[string]attack)
	for _, part := range []map[string]attack{fileAttacks(), modeAttacks(), processAttacks(), kernelAttacks(), mountAttacks(), networkAttacks(), bombs()} {
		for name, a := range part {
			if all[name] != nil {
				panic("two attacks are called " + name)
			}
			all[name] = a
		}
	}
	all["list"] = func() (string, error) {
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " "), nil
	}
	return all
}

// opens succeeds if one of the names can be opened; nothing is read or written.
func opens(flags int, names ...string) attack {
	return func() (string, error) {
		var errs []error
		for _, name := range names {
			fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err == nil {
				_ = unix.Close(fd)
				return name + " opens", nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return "", errors.Join(errs...)
	}
}

// reads succeeds if one of the names gives bytes that are not all zero or blank.
func reads(names ...string) attack {
	return func() (string, error) {
		var errs []error
		for _, name := range names {
			b, err := readSome(name)
			if err == nil && strings.Trim(string(b), "\x00 \n\t0") != "" {
				return fmt.Sprintf("%s reads %q", name, b[:min(len(b), 40)]), nil
			}
			errs = append(errs, fmt.Errorf("%s: %d bytes, %w", name, len(b), errors.Join(err, errors.New("nothing in it"))))
		}
		return "", errors.Join(errs...)
	}
}

func readSome(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	return b[:max(n, 0)], err
}

// call succeeds unless the kernel, or a filter before it, refuses the system
// call as such. Arguments are chosen so that it fails for another reason, or
// does no harm.
func call(nr uintptr, args ...uintptr) attack {
	return func() (string, error) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		switch errno {
		case unix.EPERM, unix.EACCES, unix.ENOSYS:
			return "", errno
		case 0:
			return "the call succeeds", nil
		}
		return fmt.Sprintf("the call gets through to its arguments: %v", errno), nil
	}
}
