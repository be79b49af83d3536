// Command init is the guest of this package's tests. It uses the protocol of the real init, and
// misbehaves as the kernel's parameter test=…, its setup or the first line of a stream selects.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/vm/timer"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("atoll: test guest:", err)
	}
	powerOff()
}

// powerOff powers the VM off.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// run prepares the VM, opens its port and serves it.
func run() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		_ = os.MkdirAll(m[1], 0o755)
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && err != unix.EBUSY {
			return err
		}
	}
	if err := timer.Check(); err != nil { // the host boots another VM: in this one nothing that sleeps would wake
		fmt.Println("atoll:", err)
		return nil
	}
	if err := loadModules(); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	test := ""
	for f := range strings.FieldsSeq(string(text)) {
		if v, ok := strings.CutPrefix(f, "test="); ok {
			test = v
		}
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	switch test {
	case "exit":
		return fmt.Errorf("gives up")
	case "timer":
		fmt.Println("atoll: the timer of this VM is off")
		return nil
	case "silent":
		time.Sleep(time.Hour)
	case "panic":
		return os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	case "noise":
		for {
			if _, err := port.Write(bytes.Repeat([]byte("noise "), 1000)); err != nil {
				return err
			}
		}
	}
	return servePort(port)
}

// loadModules loads the kernel modules of the initramfs.
func loadModules() error {
	f, err := os.Open("/modules/list")
	if err != nil {
		return err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		names, err := filepath.Glob("/modules/" + words[0] + ".ko*")
		if err != nil || len(names) == 0 {
			continue
		}
		m, err := os.Open(names[0])
		if err != nil {
			return err
		}
		flags := 0
		if !strings.HasSuffix(names[0], ".ko") {
			flags = unix.MODULE_INIT_COMPRESSED_FILE
		}
		if err := unix.FinitModule(int(m.Fd()), "", flags); err != nil && err != unix.EEXIST {
			fmt.Println("module", words[0], err)
		}
		_ = m.Close()
	}
	return nil
}

// openPort waits for the port to the host and opens it.
func openPort() (*os.File, error) {
	for range 500 {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && strings.TrimSpace(string(b)) == "atoll" {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_RDWR, 0)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("no port")
}

// servePort says hello, reads the setup and serves streams.
func servePort(port *os.File) error {
	var said atomic.Bool
	go func() {
		for !said.Load() {
			_, _ = io.WriteString(port, "ATOLL-MACHINE 1\n")
			time.Sleep(50 * time.Millisecond)
		}
	}()
	b := make([]byte, 3)
	if _, err := io.ReadFull(port, b); err != nil || string(b) != "GO\n" {
		return fmt.Errorf("%q: %v", b, err)
	}
	said.Store(true)
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.LogOutput = io.Discard
	mux, err := yamux.Server(conn{port}, c, nil)
	if err != nil {
		return err
	}
	st, err := mux.AcceptStream()
	if err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(st, head[:]); err != nil {
		return err
	}
	setup := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(st, setup); err != nil {
		return err
	}
	var do struct{ Misbehave string }
	_ = json.Unmarshal(setup, &do) // other setups are none of ours
	answer := `{"error":""}`
	switch do.Misbehave {
	case "garbage":
		for {
			if _, err := port.Write(bytes.Repeat([]byte{0, 9, 0xff, 0xff}, 1000)); err != nil {
				time.Sleep(time.Hour) // the host says why it has ended
			}
		}
	case "refuse":
		answer = `{"error":"the disk is \u001b[31mbroken","reason":"invalid"}`
	case "huge":
		_, _ = st.Write([]byte{0x7f, 0xff, 0xff, 0xff})
		time.Sleep(time.Hour)
	case "mute":
		time.Sleep(time.Hour)
	}
	if _, err := st.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
		return err
	}
	_ = st.Close()
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return err
		}
		go serveStream(st, port, setup)
	}
}

// serveStream executes the command in the stream's first line.
func serveStream(st *yamux.Stream, port *os.File, setup []byte) {
	defer st.Close()
	r := bufio.NewReader(st)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	switch words := strings.Fields(line); words[0] {
	case "echo":
		_, _ = io.Copy(st, r)
	case "setup":
		_, _ = st.Write(append(setup, 10))
	case "time":
		fmt.Fprintln(st, time.Now().UnixNano())
	case "off":
		powerOff()
	case "panic":
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	case "hang": // only the kernel still runs
		_ = os.WriteFile("/proc/sys/kernel/sched_rt_runtime_us", []byte("-1"), 0)
		runtime.LockOSThread()
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 99}, 0)
		for {
		}
	case "garbage":
		for {
			_, _ = port.Write(bytes.Repeat([]byte{0xff, 9, 0xff, 0xff}, 1000))
		}
	case "memory":
		useMemory(st)
	case "fill":
		fillDisk(st, words[1])
	case "disks":
		names, _ := filepath.Glob("/sys/block/vd*/serial")
		for _, n := range names {
			b, _ := os.ReadFile(n)
			size, _ := os.ReadFile(filepath.Dir(n) + "/size")
			fmt.Fprintf(st, "%s %s %s\n", filepath.Base(filepath.Dir(n)), b, bytes.TrimSpace(size))
		}
	case "head": // the first bytes of a disk
		b := make([]byte, 6)
		f, err := os.Open("/dev/" + words[1])
		if err == nil {
			_, err = io.ReadFull(f, b)
		}
		fmt.Fprintf(st, "%q", b)
		if err != nil {
			fmt.Fprint(st, err)
		}
		fmt.Fprintln(st)
	case "put": // six bytes at the start of a disk
		f, err := os.OpenFile("/dev/"+words[1], os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(words[2])
		}
		if err == nil {
			err = f.Sync()
		}
		fmt.Fprintln(st, "put", err)
	case "say":
		fmt.Println(strings.TrimSpace(strings.TrimPrefix(line, "say")))
	}
}

// useMemory allocates memory until the VM has none left.
func useMemory(st io.Writer) {
	var all [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = byte(i)
		}
		all = append(all, b)
		fmt.Fprintln(st, len(all))
	}
}

// fillDisk writes to a disk, one MiB at a time, until an error.
func fillDisk(st io.Writer, disk string) {
	f, err := os.OpenFile("/dev/"+disk, os.O_WRONLY, 0)
	n := 0
	if err == nil {
		for range 1 << 20 {
			if _, err = f.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				break
			}
			if err = unix.Fsync(int(f.Fd())); err != nil {
				break
			}
			n++
			fmt.Fprintln(st, n)
		}
	}
	fmt.Fprintln(st, n, err)
}

// conn is the port with the methods that the multiplexer needs.
type conn struct{ *os.File }

func (c conn) LocalAddr() net.Addr  { return &net.UnixAddr{} }
func (c conn) RemoteAddr() net.Addr { return &net.UnixAddr{} }
