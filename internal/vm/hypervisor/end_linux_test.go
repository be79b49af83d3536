package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// TestSaysWhyItDoesNotStart starts VMs that can't start: each error has the reason, and nothing is
// left behind.
func TestSaysWhyItDoesNotStart(t *testing.T) {
	skipShort(t)
	wrong := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(wrong, []byte(strings.Repeat("no kernel ", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	misbehave := func(c *Config, how string) { // after the boot: all of one template
		*c = *templateConfig(t)
		c.Setup = json.RawMessage(`{"misbehave":"` + how + `"}`)
	}
	for name, test := range map[string]struct {
		change func(c *Config)
		reason Reason
		want   string
		kind   error
	}{
		"Silent":       {func(c *Config) { c.Append, c.StartTimeout = "test=silent", 8*time.Second }, ByBoot, "the guest sent nothing on its port within 8s", atoll.ErrUnavailable},
		"Noise":        {func(c *Config) { c.Append = "test=noise" }, ByProtocol, `but not the line "ATOLL-MACHINE 1"`, atoll.ErrUnavailable},
		"GivesUp":      {func(c *Config) { c.Append = "test=exit" }, ByBoot, "the guest: test guest: gives up", atoll.ErrUnavailable},
		"Panic":        {func(c *Config) { c.Append = "test=panic" }, ByPanic, "the guest's kernel panicked: sysrq triggered crash", atoll.ErrUnavailable},
		"NoInit":       {func(c *Config) { c.Append = "rdinit=/none root=/dev/none" }, ByPanic, "the guest's kernel panicked: ", atoll.ErrUnavailable},
		"WrongKernel":  {func(c *Config) { c.Kernel = wrong }, ByFault, "the hypervisor ended with status 1", atoll.ErrUnavailable},
		"NoKernel":     {func(c *Config) { c.Kernel = wrong + "2" }, ByFault, "kernel: open ", atoll.ErrUnavailable},
		"NoDisk":       {func(c *Config) { c.Disks = []Disk{{File: wrong + "2", Format: "raw", Serial: "root"}} }, ByFault, "disk root: open ", atoll.ErrUnavailable},
		"NoQcow2":      {func(c *Config) { c.Disks = []Disk{{File: wrong, Format: "qcow2", Serial: "root"}} }, ByFault, "not in qcow2 format", atoll.ErrUnavailable},
		"Garbage":      {func(c *Config) { misbehave(c, "garbage") }, ByProtocol, "the guest's answer to its setup", atoll.ErrUnavailable},
		"Huge":         {func(c *Config) { misbehave(c, "huge") }, ByProtocol, "a message of 2147483647 bytes", atoll.ErrUnavailable},
		"Mute":         {func(c *Config) { misbehave(c, "mute"); c.StartTimeout = 5 * time.Second }, ByProtocol, "the time limit was exceeded", atoll.ErrUnavailable},
		"Refuses":      {func(c *Config) { misbehave(c, "refuse") }, BySetup, "the disk is  [31mbroken", atoll.ErrUnavailable},
		"LittleMemory": {func(c *Config) { c.Memory = 64 << 20 }, ByPanic, "the guest's kernel panicked: ", atoll.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := vmConfig(t)
			test.change(c)
			m, err := Start(deadline(t), c)
			for name == "Mute" && isSilent(t, c.Dir) && c.StartTimeout < time.Minute { // it did not even boot: the host is busy
				c.Dir, c.StartTimeout = sandboxDir(t), 2*c.StartTimeout
				m, err = Start(deadline(t), c)
			}
			if err == nil {
				_ = m.Kill(deadline(t))
				t.Fatal("it started")
			}
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwant %q, %v", err, test.want, test.kind)
			}
			if strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("the error speaks to the terminal: %q", err)
			}
			end, eerr := LastEnd(c.Dir)
			if eerr != nil || end == nil || end.Reason != test.reason {
				t.Errorf("%+v, %v; want %s", end, eerr, test.reason)
			}
			list, err := os.ReadDir(c.Dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.Name() != BootLog && e.Name() != EndFile && e.Name() != lockFile {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

// isSilent reports whether a VM ended before its guest sent a line.
func isSilent(t *testing.T, dir string) bool {
	t.Helper()
	end, err := LastEnd(dir)
	return err == nil && end != nil && end.Reason == ByBoot
}

// TestSaysWhyItEnded ends VMs that served.
func TestSaysWhyItEnded(t *testing.T) {
	tell := func(line string) func(*testing.T, *VM) {
		return func(t *testing.T, m *VM) { sendLine(t, m, line) }
	}
	for name, test := range map[string]struct {
		do     func(t *testing.T, m *VM)
		reason Reason
		want   string
	}{
		"Off":     {tell("off"), ByGuest, "the guest switched itself off"},
		"Panic":   {tell("panic"), ByPanic, "the guest's kernel panicked: sysrq triggered crash"},
		"Garbage": {tell("garbage"), ByProtocol, "violated the wire protocol"},
		"Memory":  {tell("memory"), ByPanic, "the guest's kernel panicked: "},
		"KilledHypervisor": {func(t *testing.T, m *VM) {
			if err := unix.Kill(m.record.PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, BySignal, "the hypervisor was killed by a signal: killed"},
		"KilledMonitor": {func(t *testing.T, m *VM) {
			if err := unix.Kill(m.record.Monitor, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, ByMonitor, "the VM's monitor was killed"},
		"Kill": {func(t *testing.T, m *VM) {
			if err := m.Kill(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}, ByOrder, "it was switched off"},
		"KillPaused": {func(t *testing.T, m *VM) {
			if err := errors.Join(m.Pause(deadline(t)), m.Kill(deadline(t))); err != nil {
				t.Fatal(err)
			}
		}, ByOrder, "it was switched off"},
		"PowerOff": {func(t *testing.T, m *VM) {
			if _, err := m.askMonitor(deadline(t), question{Do: verbPowerOff}); err != nil { // before the guest is faster
				t.Fatal(err)
			}
			sendLine(t, m, "off")
			if err := m.PowerOff(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}, ByOrder, "it was switched off"},
		"PowerOffOfADeafOne": {func(t *testing.T, m *VM) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := m.PowerOff(ctx); err != nil {
				t.Fatal(err)
			}
		}, ByOrder, "it was switched off"},
	} {
		t.Run(name, func(t *testing.T) {
			m := startVM(t, templateConfig(t))
			test.do(t, m)
			end, err := m.Wait(deadline(t))
			if err != nil || end == nil || end.Reason != test.reason || !strings.Contains(end.Message, test.want) {
				t.Errorf("%+v, %v; want %s, %q", end, err, test.reason, test.want)
			}
			s, err := m.Status(deadline(t))
			if err != nil || s.Phase != Ended || s.End == nil || s.End.Reason != test.reason {
				t.Errorf("%+v, %v", s, err)
			}
			if _, err := m.Dial(deadline(t)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("dial: %v", err)
			}
			if err := m.Kill(deadline(t)); err != nil {
				t.Error("killed when it was over:", err)
			}
			if _, err := Open(m.dir); !errors.Is(err, atoll.ErrNotFound) {
				t.Error("opened when it was over:", err)
			}
			if name == "KilledMonitor" { // no monitor was left to remove these
				for _, name := range []string{GuestSocket, MonitorSocket, stateFile} {
					_ = os.Remove(filepath.Join(m.dir, name))
				}
			}
		})
	}
}

func TestPauses(t *testing.T) {
	m := startVM(t, templateConfig(t))
	for range 2 {
		if err := m.Pause(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.Status(deadline(t))
	if err != nil || s.Phase != Paused || s.Answers {
		t.Errorf("%+v, %v", s, err)
	}
	for range 2 {
		if err := m.Resume(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	checkEcho(t, m)
	if s, err := m.Status(deadline(t)); err != nil || s.Phase != Running || !s.Answers {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTellsThatItHangs stops the guest's only program.
func TestTellsThatItHangs(t *testing.T) {
	m := startVM(t, templateConfig(t))
	sendLine(t, m, "hang")
	for {
		s, err := m.Status(deadline(t))
		if err != nil || s.Phase != Running {
			t.Fatalf("%+v, %v", s, err)
		}
		if !s.Answers {
			break
		}
	}
}
