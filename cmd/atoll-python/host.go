package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
)

// host has the functions of WASI that the program imports. It knows nothing of files: it copies arguments and results
// between the memory of the program and the connection.
type host struct {
	conn   net.Conn
	in     *bufio.Reader
	start  wasi.Start
	args   []string
	memory *memory
	size   int64 // of the program's memory
	begun  bool  // it has its job
	known  bool  // the sandbox that it belongs to: before, there are no files
	job    []byte
	dirs   map[uint32]string // paths of open directories
	clock  time.Time
}

// jobPath is the file that the boot code reads, once; jobFD is its descriptor.
const (
	jobPath = "/proc/self/atoll-job"
	jobFD   = wasi.FirstFile - 1
)

// roots are the directories that the program begins with, from descriptor 3. The interpreter has a directory /usr of its own
// for its library: the others are those of the sandbox below it.
var roots = []string{"/", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share", "/usr/local/bin", "/usr/local/share"} //nolint:gochecknoglobals // constant

func newHost(conn net.Conn) *host {
	h := &host{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), dirs: make(map[uint32]string), clock: time.Now()}
	for i, name := range roots {
		h.dirs[uint32(3+i)] = name
	}
	return h
}

// call makes a call of the sandbox. Without its end of the connection there is nothing left to do.
func (h *host) call(c wasi.Call) wasi.Reply {
	h.checkStack()
	err := wasi.WriteCall(h.conn, c)
	var a wasi.Reply
	if err == nil {
		a, err = wasi.ReadReply(h.in)
	}
	if err != nil {
		os.Exit(1) //nolint:forbidigo // the sandbox has ended the program
	}
	return a
}

// guardSize is the number of bytes at the end of the stack that must stay unused.
const guardSize = 32 << 10

// checkStack ends a program whose stack has grown beyond its end, over the data below.
func (h *host) checkStack() {
	if h.memory == nil || len(h.memory.b) < helper.PythonStackEnd+guardSize {
		return
	}
	for _, v := range h.memory.b[helper.PythonStackEnd : helper.PythonStackEnd+guardSize] {
		if v != 0 {
			panic(fmt.Errorf("%w: the stack of the interpreter is full", atoll.ErrQuota))
		}
	}
}

// receiveStart receives the options of a cold interpreter.
func (h *host) receiveStart() error {
	h.known = true
	return json.Unmarshal(h.call(wasi.Call{Op: wasi.OpStart}).Data, &h.start)
}

// frame is one call of a function of WASI: its arguments, and the memory of the program.
type frame struct {
	*host

	mem  api.Memory
	args []uint64
}

const (
	efault wasi.Errno = 21
	i32               = api.ValueTypeI32
	i64               = api.ValueTypeI64
)

func (f *frame) arg(i int) uint32 { return uint32(f.args[i]) }

// bytes returns memory of the program; false if it is not all inside.
func (f *frame) bytes(at, size uint32) ([]byte, bool) { return f.mem.Read(at, size) }

// text returns the text whose address and length are arguments.
func (f *frame) text(i int) (string, bool) {
	b, ok := f.mem.Read(f.arg(i), f.arg(i+1))
	return string(b), ok
}

// path returns the absolute path for a directory's descriptor and a name, which are arguments.
func (f *frame) path(dir, name int) (string, wasi.Errno) {
	text, ok := f.text(name)
	if !ok {
		return "", efault
	}
	base, ok := f.dirs[f.arg(dir)]
	switch {
	case !ok:
		return "", wasi.EBADF
	case text == "":
		return "", wasi.ENOENT
	case path.IsAbs(text):
		return text, 0
	case text == ".":
		return base, 0
	case base == "/":
		return base + text, 0
	}
	return base + "/" + text, 0
}

// send makes a call, and returns its error.
func (f *frame) send(op wasi.Op, data string, args ...int64) wasi.Errno {
	return f.call(wasi.Call{Op: op, Args: args, Data: []byte(data)}).Errno
}

// put32 stores a result whose address is an argument.
func (f *frame) put32(i int, v uint32) wasi.Errno {
	if !f.mem.WriteUint32Le(f.arg(i), v) {
		return efault
	}
	return 0
}

func (f *frame) put64(i int, v uint64) wasi.Errno {
	if !f.mem.WriteUint64Le(f.arg(i), v) {
		return efault
	}
	return 0
}

// function is a function of WASI.
type function struct {
	name   string
	params []api.ValueType
	run    func(f *frame) wasi.Errno
}

// types returns parameters: w is 32 bits, d is 64.
func types(text string) []api.ValueType {
	list := make([]api.ValueType, len(text))
	for i := range text {
		list[i] = i32
		if text[i] == 'd' {
			list[i] = i64
		}
	}
	return list
}

// export adds the functions to a module.
func (h *host) export(b wazero.HostModuleBuilder) {
	for _, x := range append(functions(), fileFunctions()...) {
		run := x.run
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
			stack[0] = uint64(run(&frame{h, m.Memory(), stack}))
		}), x.params, []api.ValueType{i32}).Export(x.name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) {
		panic(sys.NewExitError(uint32(stack[0]))) // as wazero wants it
	}), types("w"), nil).Export("proc_exit")
}

// functions are those that concern no files.
func functions() []function {
	refuse := func(*frame) wasi.Errno { return wasi.ENOTSUP }
	return []function{
		{"args_get", types("ww"), func(f *frame) wasi.Errno { return f.putTexts(f.host.args) }},
		{"args_sizes_get", types("ww"), func(f *frame) wasi.Errno { return f.putSizes(f.host.args) }},
		{"environ_get", types("ww"), func(f *frame) wasi.Errno { return f.putTexts(f.start.Env) }},
		{"environ_sizes_get", types("ww"), func(f *frame) wasi.Errno { return f.putSizes(f.start.Env) }},
		{"clock_res_get", types("ww"), func(f *frame) wasi.Errno { return f.put64(1, 1000) }},
		{"clock_time_get", types("wdw"), (*frame).readClock},
		{"random_get", types("ww"), func(f *frame) wasi.Errno {
			b, ok := f.bytes(f.arg(0), f.arg(1))
			if !ok {
				return efault
			}
			_, _ = rand.Read(b) // it never fails
			return 0
		}},
		{"sched_yield", nil, func(*frame) wasi.Errno { return 0 }},
		{"poll_oneoff", types("wwww"), (*frame).poll},
		{"sock_accept", types("www"), refuse},
		{"sock_recv", types("wwwwww"), refuse},
		{"sock_send", types("wwwww"), refuse},
		{"sock_shutdown", types("ww"), refuse},
	}
}

// putTexts stores texts, and their addresses: the arguments are the addresses of both.
func (f *frame) putTexts(list []string) wasi.Errno {
	at, to := f.arg(0), f.arg(1)
	for _, s := range list {
		if !f.mem.WriteUint32Le(at, to) || !f.mem.WriteString(to, s) || !f.mem.WriteByte(to+uint32(len(s)), 0) {
			return efault
		}
		at, to = at+4, to+uint32(len(s))+1
	}
	return 0
}

func (f *frame) putSizes(list []string) wasi.Errno {
	size := 0
	for _, s := range list {
		size += len(s) + 1
	}
	if no := f.put32(0, uint32(len(list))); no != 0 {
		return no
	}
	return f.put32(1, uint32(size))
}

// The clocks of WASI; the others measure the time of the processor.
const (
	clockReal     = 0
	clockMonotone = 1
)

func (h *host) now(clock uint32) uint64 {
	if clock == clockReal {
		return uint64(time.Now().UnixNano())
	}
	return uint64(time.Since(h.clock)) + 1
}

func (f *frame) readClock() wasi.Errno { return f.put64(2, f.now(f.arg(0))) }

// The layout of subscriptions and events.
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024
)

// poll waits for clocks. Files are always ready.
func (f *frame) poll() wasi.Errno {
	n := f.arg(2)
	if n == 0 || n > maxSubscriptions {
		return wasi.EINVAL
	}
	ready, first, wait := uint32(0), uint32(0), int64(-1)
	for i := range n {
		b, ok := f.bytes(f.arg(0)+i*subscriptionSize, subscriptionSize)
		if !ok {
			return efault
		}
		if b[8] != 0 {
			if !f.putEvent(ready, b) {
				return efault
			}
			ready++
			continue
		}
		d := int64(le.Uint64(b[24:]))
		if b[40]&1 != 0 {
			d -= int64(f.now(le.Uint32(b[16:])))
		}
		if d = max(0, d); wait < 0 || d < wait {
			first, wait = i, d
		}
	}
	if ready == 0 {
		if no := f.send(wasi.OpSleep, "", wait); no != 0 {
			return no
		}
		b, ok := f.bytes(f.arg(0)+first*subscriptionSize, subscriptionSize)
		if !ok || !f.putEvent(0, b) {
			return efault
		}
		ready = 1
	}
	return f.put32(3, ready)
}

// putEvent stores the event of a subscription.
func (f *frame) putEvent(i uint32, subscription []byte) bool {
	b, ok := f.bytes(f.arg(1)+i*eventSize, eventSize)
	if !ok {
		return false
	}
	clear(b)
	copy(b, subscription[:8])
	b[10] = subscription[8]
	if b[10] != 0 {
		le.PutUint64(b[16:], 1)
	}
	return true
}
