//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bombAttacks returns attacks that exhaust a shared resource. Each gets an amount as
// its argument and succeeds if it gets all of it.
func bombAttacks() map[string]attack {
	return map[string]attack{
		"bomb-processes": bombProcesses,
		"bomb-memory":    bombMemory,
		"bomb-shm":       func() (string, error) { return fillFile("/dev/shm/fill") },
		"bomb-tmp":       func() (string, error) { return fillFile("/tmp/fill") },
		"bomb-disk":      func() (string, error) { return fillFile("/workspace/fill") },
		"bomb-inodes":    bombInodes,
		"bomb-memfd":     bombMemfd,
		"bomb-signals":   bombSignals,
		"bomb-inotify": func() (string, error) {
			return openMany("inotify instances", func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) })
		},
		"bomb-ptys": bombTerminals,
	}
}

// intArgument returns the attack's first argument as a number.
func intArgument() int {
	n, err := strconv.Atoi(stringArgument(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(bad)
	}
	return n
}

func bombProcesses() (string, error) {
	n := intArgument()
	var list []*exec.Cmd
	defer func() {
		for _, c := range list {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for i := range n {
		c := exec.Command("/bin/sleep", "60") //nolint:noctx // killed above
		if err := c.Start(); err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		list = append(list, c)
	}
	return fmt.Sprintf("%d processes at once", n), nil
}

// bombMemory allocates and writes megabytes of memory. The test detects if the kernel
// kills it.
func bombMemory() (string, error) {
	n := intArgument()
	for range n {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		if err != nil {
			return "", err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	return fmt.Sprintf("%d MB held", n), nil
}

// fillFile writes megabytes to a file.
func fillFile(name string) (string, error) {
	n := intArgument()
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer os.Remove(name)
	defer f.Close()
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	for i := range n {
		if _, err := f.Write(b); err != nil {
			return "", fmt.Errorf("after %d MB: %w", i, err)
		}
	}
	return fmt.Sprintf("%d MB in %s", n, name), nil
}

func bombInodes() (string, error) {
	n := intArgument()
	dir, err := os.MkdirTemp("/workspace", "inodes")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	defer os.RemoveAll(dir)
	for i := range n {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		_ = f.Close()
	}
	return fmt.Sprintf("%d files", n), nil
}

// bombMemfd stores data in an unnamed memory file, which does not count as memory of a
// process.
func bombMemfd() (string, error) {
	n := intArgument()
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	fd, err := unix.MemfdCreate("bomb", unix.MFD_CLOEXEC)
	if err != nil {
		return "", errors.Join(errBad, err)
	}
	for i := range n {
		if _, err := unix.Write(fd, b); err != nil {
			return "", fmt.Errorf("after %d MB: %w", i, err)
		}
	}
	return fmt.Sprintf("%d MB in a memfd", n), nil
}

// openMany opens descriptors and keeps them all open.
func openMany(what string, open func() (int, error)) (string, error) {
	n := intArgument()
	var list []int
	defer func() {
		for _, fd := range list {
			_ = unix.Close(fd)
		}
	}()
	for i := range n {
		fd, err := open()
		if err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		list = append(list, fd)
	}
	return fmt.Sprintf("%d %s at once", n, what), nil
}

func bombTerminals() (string, error) {
	return openMany("terminals", func() (int, error) {
		return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
}

// bombSignals queues signals that no thread receives.
func bombSignals() (string, error) {
	const signal = 40
	runtime.LockOSThread()
	blocked := unix.Sigset_t{}
	blocked.Val[0] = 1 << (signal - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
		return "", errors.Join(errBad, err)
	}
	info := struct {
		signo, errno, code, pad int32
		rest                    [112]byte
	}{signo: signal, code: -1} // SI_QUEUE
	n := intArgument()
	for i := range n {
		_, _, e := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), signal, uintptr(unsafe.Pointer(&info)), 0, 0)
		if e != 0 {
			return "", fmt.Errorf("after %d: %w", i, e)
		}
	}
	return fmt.Sprintf("%d signals queued", n), nil
}
