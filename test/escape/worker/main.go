//go:build linux

// Command worker is atoll-worker with one command more in its sandbox: "call" makes a system call of
// the process itself, as code would that has taken the process over. It is part of no release; the
// escape tests build it, and a server of theirs starts it instead of atoll-worker.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "call" { // without a seal, to show what the call would do
		result, err := makeCall(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(2)
		}
		fmt.Fprintln(os.Stdout, result)
		return
	}
	commands := []program.Command{
		{Name: "call", Usage: "Usage: call NUMBER [ARGUMENT]...\n", Run: runCall},
		{Name: "calls", Usage: "Usage: calls FROM TO [EXCEPT]...\n", Run: runCalls},
	}
	if err := virtual.RunWorker(commands); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// runCall makes one call and prints its result.
func runCall(p *kernel.Proc) int {
	result, err := makeCall(p.Args[1:])
	if err != nil {
		p.Errorf("%v", err)
		return 2
	}
	_, _ = p.Out().WriteString(result + "\n")
	return flush(p)
}

// runCalls makes every call of a range of numbers, with arguments that no call takes, and prints
// the number and the result of each.
func runCalls(p *kernel.Proc) int {
	var numbers []uintptr
	for _, arg := range p.Args[1:] {
		n, err := strconv.ParseUint(arg, 0, 32)
		if err != nil {
			p.Errorf("%v", err)
			return 2
		}
		numbers = append(numbers, uintptr(n))
	}
	if len(numbers) < 2 {
		p.Errorf("FROM and TO are missing")
		return 2
	}
	except := make(map[uintptr]bool)
	for _, n := range numbers[2:] {
		except[n] = true
	}
	const senseless = ^uintptr(0)
	for n := numbers[0]; n < numbers[1]; n++ {
		if except[n] {
			continue
		}
		r, e := callKernel(n, [6]uintptr{senseless, senseless, senseless, senseless, senseless, senseless})
		_, _ = fmt.Fprintf(p.Out(), "%d %s\n", n, describe(r, e))
	}
	return flush(p)
}

// flush writes what was printed, and returns the exit code.
func flush(p *kernel.Proc) int {
	if err := p.Out().Flush(); err != nil {
		return 1
	}
	return 0
}

// makeCall makes a call of a number with arguments: numbers, text:TEXT for a pointer to a text that
// ends with a zero byte, and zeros:N for one to a number of zero bytes.
func makeCall(words []string) (string, error) {
	if len(words) < 1 || len(words) > 7 {
		return "", fmt.Errorf("a number and at most six arguments are needed, not %d words", len(words))
	}
	var args [6]uintptr
	var kept [][]byte // what arguments point to
	number, err := strconv.ParseUint(words[0], 0, 32)
	if err != nil {
		return "", err
	}
	for i, word := range words[1:] {
		if text, ok := strings.CutPrefix(word, "text:"); ok {
			kept = append(kept, append([]byte(text), 0))
		} else if count, ok := strings.CutPrefix(word, "zeros:"); ok {
			n, err := strconv.ParseUint(count, 0, 20)
			if err != nil || n == 0 {
				return "", fmt.Errorf("%s: a number of bytes is needed, above 0", word)
			}
			kept = append(kept, make([]byte, n))
		} else {
			n, err := strconv.ParseInt(word, 0, 64)
			if err != nil {
				return "", err
			}
			args[i] = uintptr(n)
			continue
		}
		args[i] = uintptr(unsafe.Pointer(&kept[len(kept)-1][0]))
	}
	r, e := callKernel(uintptr(number), args)
	runtime.KeepAlive(kept)
	return describe(r, e), nil
}

// callKernel makes a system call on a thread of its own.
func callKernel(number uintptr, args [6]uintptr) (uintptr, syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, _, e := unix.RawSyscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
	return r, e
}

// describe returns the name of an error, or the result of a call that had none.
func describe(r uintptr, e syscall.Errno) string {
	if e == 0 {
		return fmt.Sprintf("succeeded: %d", r)
	}
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return fmt.Sprintf("error %d", int(e))
}
