//go:build linux

// Command probe tries one attack on the isolation of the sandbox in which it runs and
// prints whether it succeeded. Its attacks change as little as possible: a file that
// must not open for writing is opened and not written, a system call that must be
// refused gets arguments that do nothing.
//
// It refuses to run in the host's mount namespace, which is its first argument: there
// some attacks would do damage.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
)

// Exit codes of an attack.
const (
	crossed = 0
	bad     = 2 // the attack could not be made
	held    = 3
)

// attack tries one attack. It returns what it reached, or the error that stopped it.
type attack func() (string, error)

// errBad marks attacks that could not be made at all.
var errBad = errors.New("the attack could not be made")

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: probe HOST-MNT-NS ATTACK [ARGUMENT…]; it is started by the escape tests")
		os.Exit(bad)
	}
	if err := checkNotHost(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(bad)
	}
	name := os.Args[2]
	switch name {
	case "weak":
		os.Exit(runWeak())
	case "sealed":
		name = sealSelf()
	}
	a, ok := listAttacks()[name]
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

// sealSelf makes this process like the worker of a sealed sandbox that keeps a directory, and
// returns the attack that was asked for: sealed DIR ATTACK [ARGUMENT…].
func sealSelf() (name string) {
	dir := stringArgument(0)
	name = stringArgument(1)
	os.Args = append(os.Args[:2:2], os.Args[4:]...)
	o := seal.Options{Memory: 256 << 20}
	if dir != "" {
		o.Dirs = []seal.Dir{{Source: dir}}
	}
	if err := seal.Process(o); err != nil {
		fmt.Fprintf(os.Stderr, "probe: sealing: %v\n", err)
		os.Exit(bad)
	}
	return name
}

// checkNotHost returns an error in the mount namespace of the host, whose name is host.
func checkNotHost(host string) error {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("reading the name of this mount namespace: %w", err)
	}
	if !strings.HasPrefix(host, "mnt:[") {
		return fmt.Errorf("%q names no mount namespace", host)
	}
	if mine == host {
		return errors.New("this is the host's mount namespace: attacks run in sandboxes only")
	}
	return nil
}

// stringArgument returns the i-th argument of the attack.
func stringArgument(i int) string {
	if len(os.Args) <= 3+i {
		fmt.Fprintf(os.Stderr, "probe: attack %s needs argument %d\n", os.Args[2], i)
		os.Exit(bad)
	}
	return os.Args[3+i]
}

// listAttacks returns all attacks by name.
func listAttacks() map[string]attack {
	all := make(map[string]attack)
	for _, part := range []map[string]attack{fileAttacks(), modeAttacks(), processAttacks(), kernelAttacks(), mountAttacks(), networkAttacks(), bombAttacks()} {
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

// openAny returns an attack that succeeds if one of the files can be opened. It reads
// and writes nothing.
func openAny(flags int, names ...string) attack {
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

// readAny returns an attack that succeeds if one of the files has content other than
// zeros and blanks.
func readAny(names ...string) attack {
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

// callSystem returns an attack that succeeds unless the kernel or a filter refuses a
// system call. Its arguments should make the call fail for another reason, or do no
// harm.
func callSystem(nr uintptr, args ...uintptr) attack {
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
