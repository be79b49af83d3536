package docker_test

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestRootCantReachHostDirectory runs commands as root against the directory of the host in which
// the guest's socket is.
func TestRootCantReachHostDirectory(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{User: "root"})
	for name, attack := range map[string]string{
		"Write":         "echo planted > /.atoll/run/planted",
		"ReplaceSocket": "rm -f /.atoll/run/guest.sock && echo gone",
		"Rename":        "mv /.atoll/run/guest.sock /.atoll/run/other && echo moved",
		"Open":          "chmod 777 /.atoll/run && echo opened",
		"Own":           "chown 0:0 /.atoll/run && echo owned",
		"List":          "ls /.atoll/run | grep guest.sock",
		"MoveAway":      "mv /.atoll/run /.atoll/other && echo moved",
	} {
		t.Run(name, func(t *testing.T) {
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: attack})
			if err != nil {
				t.Fatal(err)
			}
			if exit.Code == 0 {
				t.Errorf("%s: it worked: %s", attack, exit.Stdout)
			}
		})
	}
	if out := runShell(t, sb, atoll.Cmd{Shell: "id -u; echo $?"}); !strings.HasPrefix(out, "0\n") {
		t.Errorf("the commands ran as %q: the test shows nothing", out)
	}
	planted, err := filepath.Glob(filepath.Join(d.Dir, "*", "*", "run", "planted"))
	if more, err2 := filepath.Glob(filepath.Join(d.Dir, "*", "run", "planted")); err != nil || err2 != nil || len(planted)+len(more) > 0 {
		t.Errorf("on the host: %q %q, %v, %v", planted, more, err, err2)
	}
}

// TestX32CallsAreUnknown makes a call of the x32 ABI, getpid, and exits with its error number.
func TestX32CallsAreUnknown(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 is an ABI of x86-64")
	}
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{})
	code := []byte{
		0xb8, 39, 0, 0, 0x40, 0x0f, 0x05, // mov eax, 0x40000000+39; syscall
		0xf7, 0xd8, 0x89, 0xc7, // neg eax; mov edi, eax
		0xb8, 60, 0, 0, 0, 0x0f, 0x05, // mov eax, 60; syscall
	}
	if err := atoll.WriteFile(t.Context(), sb, "/tmp/x32", elfProgram(code), 0o755); err != nil {
		t.Fatal(err)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"/tmp/x32"}})
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code != 38 {
		t.Errorf("exit %+v, want 38 (ENOSYS)", exit)
	}
}

// elfProgram returns a program of machine code for x86-64.
func elfProgram(code []byte) []byte {
	const base, head = 0x400000, 64 + 56
	le := binary.LittleEndian
	b := make([]byte, head)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 2)  // executable
	le.PutUint16(b[18:], 62) // x86-64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[24:], base+head) // entry
	le.PutUint64(b[32:], 64)        // program headers
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	p := b[64:]
	le.PutUint32(p, 1)     // loaded
	le.PutUint32(p[4:], 5) // readable, executable
	le.PutUint64(p[16:], base)
	le.PutUint64(p[24:], base)
	le.PutUint64(p[32:], uint64(head+len(code)))
	le.PutUint64(p[40:], uint64(head+len(code)))
	le.PutUint64(p[48:], 0x1000)
	return append(b, code...)
}
