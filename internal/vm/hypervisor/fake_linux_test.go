package hypervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// fakeDir is the directory of buildFake's program; empty: it was not built.
var fakeDir string

// buildFake builds the program that plays a hypervisor, once.
var buildFake = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "atoll-fake-")
	if err != nil {
		return "", err
	}
	fakeDir = dir
	path := filepath.Join(dir, "qemu")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/fake")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w: %s", err, out)
	}
	return path, os.Chmod(dir, 0o755)
})

// fakeConfig returns the configuration of a fake hypervisor with a behavior.
func fakeConfig(t *testing.T, do string) *Config {
	t.Helper()
	testenv.Real(t, "helpers")
	qemu, err := buildFake()
	if err != nil {
		t.Fatal(err)
	}
	guest, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{Dir: sandboxDir(t), Helper: guest, QEMU: qemu, Kernel: qemu, Accel: TCG, Memory: 64 << 20, CPUs: 1, Append: "fake=" + do, StartTimeout: time.Minute}
	if os.Geteuid() == 0 {
		c.User = unusedUser(t)
	}
	return c
}

func TestHypervisorsThatMisbehaveAtTheStart(t *testing.T) {
	for do, want := range map[string]string{
		"ungreeting": "the time limit was exceeded",
		"longline":   "a line of more than 1048576 bytes",
		"nonsense":   `invalid message: "\x1b[31m{]`,
		"refusing":   "qmp_capabilities: no  [31mway",
		"chatty":     "the hypervisor ended with status 7: it was the .[31mlast",
	} {
		t.Run(do, func(t *testing.T) {
			c := fakeConfig(t, do)
			if do == "ungreeting" {
				c.StartTimeout = time.Second
			}
			_, err := Start(deadline(t), c)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("the error speaks to the terminal: %q", err)
			}
			if info, err := os.Stat(filepath.Join(c.Dir, BootLog)); err != nil || info.Size() > maxHead+2*maxTail {
				t.Errorf("the log: %v, %v", info.Size(), err)
			}
		})
	}
}

func TestHypervisorsThatMisbehave(t *testing.T) {
	for _, do := range []string{"", "slowly", "opening", "flood", "immortal"} {
		t.Run("As"+do, func(t *testing.T) {
			m := startVM(t, fakeConfig(t, do))
			for range 3 {
				c, err := m.Dial(deadline(t))
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, 5)
				if _, err := c.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Read(b); err != nil || string(b) != "hello" {
					t.Fatalf("%q, %v", b, err)
				}
				_ = c.Close()
			}
			if err := errors.Join(m.Pause(deadline(t)), m.Resume(deadline(t))); err != nil {
				t.Error(err)
			}
			s, err := m.Status(deadline(t))
			if err != nil || s.Phase != Running || !s.Answers || s.Facts.Version != "7.2.1" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	t.Run("Deaf", func(t *testing.T) {
		m := startVM(t, fakeConfig(t, "deaf"))
		if err := m.Pause(deadline(t)); err == nil || !strings.Contains(err.Error(), "stop: ") {
			t.Errorf("%v", err)
		}
		if s, err := m.Status(deadline(t)); err != nil || !s.Answers {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestHypervisorIsWalledOff lets a compromised hypervisor try to reach the host.
func TestHypervisorIsWalledOff(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: as the same user less is walled off")
	}
	checkConfined(t, fakeConfig(t, "attack"))
}

// checkConfined starts a hypervisor that attacks, and checks that it has reached nothing.
func checkConfined(t *testing.T, c *Config) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o644), os.Chmod(filepath.Dir(secret), 0o755)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name := fmt.Sprintf("atoll-machine-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	c.Append += fmt.Sprintf(" with=%s,%s,%d,%s", secret, c.Dir, l.Addr().(*net.TCPAddr).Port, name)
	startVM(t, c)
	log, err := os.ReadFile(filepath.Join(c.Dir, BootLog))
	if err != nil || !strings.Contains(string(log), "TRIED") || strings.Contains(string(log), "DID ") {
		t.Errorf("%v: %s", err, log)
	}
}
