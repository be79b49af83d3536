// Command fake is a compromised hypervisor: it accepts QEMU's arguments and misbehaves as the kernel's
// parameter fake=… selects.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-version" {
		fmt.Println("QEMU emulator version 7.2.0 (fake)")
		return
	}
	fds, do, with := make(map[string]int), "", []string(nil)
	for i, a := range os.Args {
		if a == "-chardev" {
			id, fd, _ := strings.Cut(strings.TrimPrefix(os.Args[i+1], "socket,id="), ",fd=")
			fds[id], _ = strconv.Atoi(fd)
		}
		if a == "-append" {
			for _, f := range strings.Fields(os.Args[i+1]) {
				if v, ok := strings.CutPrefix(f, "fake="); ok {
					do = v
				}
				if v, ok := strings.CutPrefix(f, "with="); ok {
					with = strings.Split(v, ",")
				}
			}
		}
	}
	qmp, console, port := inheritedFile(fds["qmp"]), inheritedFile(fds["console"]), inheritedFile(fds["atoll"])
	misbehave(do, with, qmp, console, port)
	fmt.Fprintln(qmp, `{"QMP":{"version":{"qemu":{"major":7,"minor":2,"micro":1}}}}`)
	go runGuest(port, do)
	serveMonitor(qmp, do)
	if do == "immortal" {
		time.Sleep(time.Hour)
	}
}

// misbehave does what must happen before the greeting of the monitor's protocol.
func misbehave(do string, with []string, qmp, console, port *os.File) {
	switch do {
	case "ungreeting":
		time.Sleep(time.Hour)
	case "longline":
		_, _ = qmp.Write(bytes.Repeat([]byte("x"), 4<<20))
		time.Sleep(time.Hour)
	case "nonsense":
		fmt.Fprintln(qmp, "\x1b[31m{]")
		time.Sleep(time.Hour)
	case "refusing":
		fmt.Fprintln(qmp, `{"QMP":{"version":{"qemu":{"major":7}}}}`)
		fmt.Fprintln(qmp, `{"id":1,"error":{"class":"GenericError","desc":"no \u001b[31mway"}}`)
		time.Sleep(time.Hour)
	case "chatty":
		for range 4 << 20 / 16 {
			fmt.Fprintf(console, "a line \x1b[31m of it\r\n")
		}
		fmt.Fprintln(os.Stderr, "it was the \x1b[31mlast")
		os.Exit(7)
	case "fulldisk":
		fmt.Fprintln(qmp, `{"QMP":{"version":{"qemu":{"major":7,"minor":2,"micro":1}}}}`)
		if _, err := qmp.Read(make([]byte, 1000)); err != nil {
			os.Exit(1)
		}
		fmt.Fprintln(qmp, `{"id":1,"return":{}}`)
		fmt.Fprintln(port, "ATOLL-MACHINE 1")
		if _, err := io.ReadFull(port, make([]byte, 3)); err != nil {
			os.Exit(1)
		}
		fmt.Fprintln(qmp, `{"event":"BLOCK_IO_ERROR","data":{"device":"","node-name":"d0l0","operation":"write","action":"stop","nospace":true,"reason":"No space left on device"}}`)
		fmt.Fprintln(qmp, `{"event":"STOP"}`)
		time.Sleep(time.Hour)
	case "attack":
		for _, line := range attackHost(with) {
			fmt.Fprintln(console, line)
		}
	}
}

// serveMonitor answers the commands of the monitor's protocol.
func serveMonitor(qmp *os.File, do string) {
	for s := bufio.NewScanner(qmp); s.Scan(); {
		var q struct {
			Execute string
			ID      int
		}
		_ = json.Unmarshal(s.Bytes(), &q)
		switch {
		case do == "deaf" && q.Execute == "stop":
			time.Sleep(time.Hour)
		case do == "flood" && q.Execute == "stop":
			for range 200_000 {
				fmt.Fprintln(qmp, `{"event":"STOP","data":{"reason":"flood"}}`)
				fmt.Fprintln(qmp, `{"id":77,"return":{"what":"unrequested"}}`)
			}
		case q.Execute == "stop":
			fmt.Fprintln(qmp, `{"event":"STOP"}`)
		case q.Execute == "cont":
			fmt.Fprintln(qmp, `{"event":"RESUME"}`)
		}
		fmt.Fprintf(qmp, `{"id":%d,"return":{}}`+"\n", q.ID)
	}
}

// inheritedFile returns the file with an inherited descriptor.
func inheritedFile(fd int) *os.File { return os.NewFile(uintptr(fd), "inherited") }

// runGuest acts as a guest that serves an echo.
func runGuest(port *os.File, do string) {
	c, err := net.FileConn(port)
	if err != nil {
		return
	}
	if do == "slowly" { // half a line, then lines byte by byte
		for _, b := range []byte("LL-MACHINE 1\nATOLL-MATOLL-MACHINE 1\nATOLL-MACHINE 1\n") {
			_, _ = c.Write([]byte{b})
			time.Sleep(time.Millisecond)
		}
	} else {
		_, _ = io.WriteString(c, "ATOLL-MACHINE 1\n")
	}
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		return
	}
	_, _ = io.WriteString(c, "ATOLL-MACHINE 1\nATOLL-MACHINE 1\n") // sent before the GO was read
	mux, err := yamux.Server(c, nil, nil)
	if err != nil {
		return
	}
	if do == "opening" {
		for range 2000 {
			_, _ = mux.OpenStream(context.Background()) // the host never accepts it
		}
	}
	for first := true; ; first = false {
		st, err := mux.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer st.Close()
			if !first {
				_, _ = io.Copy(st, st)
				return
			}
			var head [4]byte
			_, _ = io.ReadFull(st, head[:])
			_, _ = io.CopyN(io.Discard, st, int64(binary.BigEndian.Uint32(head[:])))
			_, _ = st.Write(append(binary.BigEndian.AppendUint32(nil, 2), "{}"...))
		}()
	}
}

// attackHost tries operations that must not be possible, and returns a line for each one that was. Its
// arguments are a file of the host, the sandbox's directory, a port of the host and an abstract socket.
func attackHost(with []string) (did []string) {
	try := func(what string, err error) {
		if err == nil {
			did = append(did, "DID "+what)
		}
	}
	_, err := os.ReadFile(with[0])
	try("read a file of the host", err)
	_, err = os.ReadFile("/etc/passwd")
	try("read passwd", err)
	try("write a file", os.WriteFile("/tmp/atoll-fake", nil, 0o600))
	try("write in the sandbox's directory", os.WriteFile(with[1]+"/x", nil, 0o600))
	_, err = os.ReadDir("/")
	try("list the root", err)
	for _, socket := range []string{with[1] + "/monitor.sock", with[1] + "/guest.sock"} {
		c, err := net.Dial("unix", socket)
		try("reach "+socket, err)
		if err == nil {
			_ = c.Close()
		}
	}
	_, err = net.DialTimeout("tcp", "127.0.0.1:"+with[2], time.Second)
	try("reach the host's loopback", err)
	_, err = net.DialTimeout("unix", "@"+with[3], time.Second)
	try("reach an abstract socket", err)
	try("signal the monitor", unix.Kill(os.Getppid(), 0))
	try("trace the monitor", unix.PtraceAttach(os.Getppid()))
	_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
	try("read the monitor's environment", err)
	try("become root", unix.Setuid(0))
	try("make a set-user-id file", func() error {
		fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, 0o4755)
	}())
	try("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	try("make a user namespace and mount", func() error {
		if err := unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS); err != nil {
			return err
		}
		return unix.Mount("none", "/tmp", "tmpfs", 0, "")
	}())
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
	try("run a program", err)
	if err == nil {
		_, _ = p.Wait()
	}
	list, err := os.ReadDir("/proc/self/fd")
	try("list its descriptors", err)
	for _, e := range list {
		did = append(did, "HAS "+e.Name())
	}
	for fd := 3; fd < 64; fd++ { // it may have descriptors, but none of a directory or of a writable regular file
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&unix.S_IFMT == unix.S_IFREG && mode&unix.O_ACCMODE != unix.O_RDONLY {
			did = append(did, fmt.Sprintf("DID inherit %d, mode %o", fd, st.Mode))
		}
	}
	return append(did, "TRIED")
}
