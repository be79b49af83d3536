package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestPlainSlowReader reads slowly from a command that has exited, without standard input and with one that has
// ended: kubectl exec loses the end of such a stream.
func TestPlainSlowReader(t *testing.T) {
	sb := createTestSandbox(t, plainDriver(t), atoll.Spec{})
	const size = 3 << 20
	want := sha256.Sum256(bytes.Repeat([]byte("0123456789abcde\n"), size/16))
	for _, in := range []io.Reader{nil, strings.NewReader("some input\n")} {
		h := sha256.New()
		slow := writer(func(b []byte) { h.Write(b); <-time.After(5 * time.Millisecond) })
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "yes 0123456789abcde | head -c 3145728; exit 3", Stdin: in, Stdout: slow})
		if err != nil || exit.Code != 3 || [32]byte(h.Sum(nil)) != want {
			t.Errorf("%+v, %v, or it is not what was written", exit, err)
		}
	}
	requireNoProcesses(t, sb)
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// requireNoProcesses fails the test if a pod has processes other than its sleep and those of the check.
func requireNoProcesses(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	const text = `for f in /proc/[0-9]*; do read -r s 2>/dev/null <$f/stat && case ${s##*) } in [ZX]*) ;; *" 1 1 "*) ;; *) case $(tr '\0' ' ' <$f/environ) in *ATOLL_CALL="$ATOLL_CALL"*) ;; *) echo "$s";; esac;; esac; done`
	waitFor(t, func() error {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text})
		lines := strings.Split(strings.TrimSpace(string(exit.Stdout)), "\n")
		if err == nil && len(lines) > 5 { // 1, what it waits with, and the script with its pump and its subshell
			err = errors.New(string(exit.Stdout))
		}
		return err
	})
}

// TestPlainLeavesNoProcess ends commands in every way and checks that no process is left.
func TestPlainLeavesNoProcess(t *testing.T) {
	sb := createTestSandbox(t, plainDriver(t), atoll.Spec{})
	for _, text := range []string{"sleep 1000 & echo", "setsid sleep 1000 & sleep 0.1", "(trap '' TERM HUP; sleep 1000; sleep 1000) & echo"} {
		if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		_, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text + "; sleep 1000", Timeout: time.Second})
		if !errors.Is(err, atoll.ErrTimeout) {
			t.Errorf("%s: %v", text, err)
		}
		_, err = sb.Exec(t.Context(), atoll.Cmd{Shell: text + "; sleep 1000", TTY: &atoll.TTY{}, Timeout: time.Second})
		if !errors.Is(err, atoll.ErrTimeout) {
			t.Errorf("%s, on a terminal: %v", text, err)
		}
		if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text + "; exit 4", TTY: &atoll.TTY{}}); err != nil || exit.Code != 4 {
			t.Errorf("%s, on a terminal: %d, %v", text, exit.Code, err)
		}
		requireNoProcesses(t, sb)
	}
}

// TestPlainKilledSubshellIsAnError kills the shell that waits for a command: its status is unknown.
func TestPlainKilledSubshellIsAnError(t *testing.T) {
	sb := createTestSandbox(t, plainDriver(t), atoll.Spec{})
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "kill -9 $PPID; exit 3"}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("%+v, %v", exit, err)
	}
	requireNoProcesses(t, sb)
}

// TestPlainLockedDirectories unpacks directories that their owner, who is not root,
// can't write to, twice.
func TestPlainLockedDirectories(t *testing.T) {
	sb := createTestSandbox(t, plainDriver(t), atoll.Spec{})
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o510, ModTime: time.Unix(1e9, 0)},
		{Typeflag: tar.TypeDir, Name: "a/b/", Mode: 0o710, ModTime: time.Unix(1e9, 0)},
		{Typeflag: tar.TypeReg, Name: "a/b/f", Mode: 0o400, Size: 1},
		{Typeflag: tar.TypeReg, Name: "open", Mode: 0o666},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tw, "f"[:h.Size])
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sb.Import(t.Context(), "/workspace", bytes.NewReader(b.Bytes())); err != nil {
			t.Error(err)
		}
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "ls -A; stat -c '%A %Y' a a/b | tr s x; stat -c %a open; cat a/b/f"}) // s: of the volume's group
	if want := "a\nopen\ndr-x--x--- 1000000000\ndrwx--x--- 1000000000\n666\nf"; string(exit.Stdout) != want || err != nil {
		t.Errorf("%q, want %q: %v %s", exit.Stdout, want, err, exit.Stderr)
	}
}

// TestPlainFullDisk writes more than a working directory in memory takes.
func TestPlainFullDisk(t *testing.T) {
	sb := createTestSandbox(t, plainDriver(t), atoll.Spec{Pod: &atoll.Pod{StorageClass: "memory"}, Limits: atoll.Resources{Disk: 8 << 20}})
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/f", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/f", make([]byte, 9<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("9 MiB into 8: %v", err)
	}
	if b, err := atoll.ReadFile(t.Context(), sb, "/workspace/f"); string(b) != "old" || err != nil {
		t.Errorf("afterwards: %d bytes, %v", len(b), err)
	}
	list, err := atoll.ReadDir(t.Context(), sb, "/workspace")
	if err != nil || len(list) != 1 {
		t.Errorf("%d files are left, %v", len(list), err)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/etc/f", nil, 0o644); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("where nothing may be written: %v", err)
	}
}
