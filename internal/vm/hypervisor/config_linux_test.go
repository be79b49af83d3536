package hypervisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestPC(t *testing.T) {
	skipShort(t)
	c := vmConfig(t)
	c.Type = Q35
	c.Disks = []Disk{newDisk(t, c, "root", 1<<20), newDisk(t, c, "workspace", 2<<20)}
	m := startVM(t, c)
	rw := sendLine(t, m, "disks")
	expectLine(t, rw, "vda root 2048")
	expectLine(t, rw, "vdb workspace 4096")
	sendLine(t, m, "off")
	if end, err := m.Wait(deadline(t)); err != nil || end.Reason != ByGuest {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestLayersAreThoseThatWereNamed gives a VM a disk whose header names a file of the host as its
// backing file: that is not read.
func TestLayersAreThoseThatWereNamed(t *testing.T) {
	testenv.Real(t, "qemu")
	skipShort(t)
	img, err := exec.LookPath("qemu-img")
	if err != nil {
		testenv.Skip(t, "qemu", "no qemu-img: %v", err)
	}
	c := vmConfig(t)
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(deadline(t), img, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secret, base, middle, top := filepath.Join(dir, "secret"), filepath.Join(dir, "base"), filepath.Join(dir, "middle"), filepath.Join(dir, "top")
	if err := errors.Join(os.WriteFile(secret, []byte(strings.Repeat("secret", 1<<18)), 0o600), os.WriteFile(base, make([]byte, 4<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	run("create", "-f", "qcow2", "-b", base, "-F", "raw", middle)
	run("create", "-f", "qcow2", "-b", secret, "-F", "raw", "-u", top, "4M")
	c.Disks = []Disk{
		{File: top, Format: "qcow2", Serial: "root", Backing: []Backing{{middle, "qcow2"}, {base, "raw"}}},
		{File: base, Format: "raw", Serial: "again", ReadOnly: true},
	}
	m := startVM(t, c)
	rw := sendLine(t, m, "disks")
	expectLine(t, rw, "vda root 8192")
	expectLine(t, rw, "vdb again 8192")
	rw = sendLine(t, m, "head vda")
	expectLine(t, rw, `"\x00\x00\x00\x00\x00\x00"`)
	c.Disks[0].Backing = nil
	if err := m.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	m = startVM(t, c)
	expectLine(t, sendLine(t, m, "head vda"), `"\x00\x00\x00\x00\x00\x00"`)
}

// TestFarDirectories checks directories whose sockets have too long paths.
func TestFarDirectories(t *testing.T) {
	c := fakeConfig(t, "")
	c.Dir = filepath.Join(c.Dir, strings.Repeat("d", 100), strings.Repeat("e", 100))
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m := startVM(t, c)
	if s, err := m.Status(deadline(t)); err != nil || !s.Answers {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOthersDirectories checks that directories are refused in which other users can write: they
// could take over the VM.
func TestOthersDirectories(t *testing.T) {
	c := fakeConfig(t, "")
	if err := os.Chmod(c.Dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(deadline(t), c); err == nil || !strings.Contains(err.Error(), "only its owner") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{BootLog, lockFile} {
		c := fakeConfig(t, "")
		target := filepath.Join(t.TempDir(), "target")
		if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, filepath.Join(c.Dir, name))); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(deadline(t), c); err == nil {
			t.Errorf("%s: it followed a link", name)
		}
		if b, err := os.ReadFile(target); err != nil || string(b) != "precious" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"must be absolute":    func(c *Config) { c.Dir = "x" },
		"acceleration":        func(c *Config) { c.Accel = "" },
		"machine type":        func(c *Config) { c.Type = "pc" },
		"whole MiB":           func(c *Config) { c.Memory++ },
		"0 processors":        func(c *Config) { c.CPUs = 0 },
		"at most 1048576 fit": func(c *Config) { c.Setup = make([]byte, 1<<20+1) },
		"needs a kernel":      func(c *Config) { c.Kernel = "" },
		"serial":              func(c *Config) { c.Disks = []Disk{{File: "/x", Format: "raw", Serial: "a,readonly=on"}} },
		"two disks": func(c *Config) {
			c.Disks = []Disk{{File: "/x", Format: "raw", Serial: "a"}, {File: "/y", Format: "raw", Serial: "a"}}
		},
		"must be raw or qcow2": func(c *Config) { c.Disks = []Disk{{File: "/x", Format: "vmdk", Serial: "a"}} },
		"beneath a raw": func(c *Config) {
			c.Disks = []Disk{{File: "/x", Format: "raw", Serial: "a", Backing: []Backing{{"/y", "raw"}}}}
		},
		"raw as the lowest": func(c *Config) {
			c.Disks = []Disk{{File: "/x", Format: "qcow2", Serial: "a", Backing: []Backing{{"/y", "raw"}, {"/z", "raw"}}}}
		},
		"share with tag":        func(c *Config) { c.Shares = []Share{{Tag: "a,b", Proto: Plan9, Dir: "/x"}} },
		"no virtiofsd":          func(c *Config) { c.Shares = []Share{{Tag: "a", Proto: Virtiofs}} },
		"must be virtiofs or":   func(c *Config) { c.Shares = []Share{{Tag: "a", Proto: "smb"}} },
		"network interface":     func(c *Config) { c.NICs = []NIC{{MAC: "52:54:00:12:34:56"}} },
		`argument "-netdev" is`: func(c *Config) { c.Args = []string{"-netdev", "user"} },
	} {
		c := &Config{Dir: "/nowhere", Kernel: "/vmlinux", Accel: TCG, Memory: 64 << 20, CPUs: 1}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		change(c)
		if _, err := Start(t.Context(), c); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestCheckArgs(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-cpu", "host"},
		{"--cpu", "max,-avx2,+aes,pmu=off"},
		{"-rtc", "base=utc,clock=vm"},
		{"-device", "virtio-balloon-device"},
		{"-cpu", "EPYC-v4,x2apic=on", "-overcommit", "cpu-pm=on"},
		{"-uuid", "4c4c4544-0000-0000-0000-000000000000"},
	} {
		if err := CheckArgs(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{
		{"-drive", "file=/etc/shadow"},
		{"-hda", "/dev/sda"},
		{"-chardev", "file,path=/x"},
		{"-monitor", "tcp:0.0.0.0:1"},
		{"-sandbox", "off"},
		{"-runas", "root"},
		{"-cpu"},
		{"-cpu", "host,migratable=/etc"},
		{"-cpu", "custom"},
		{"-device", "vfio-pci,host=0000:00:02.0"},
		{"-device", "virtio-rng-pci,rng=x"},
		{"-device", "virtio-rng-pci,addr=4"},
		{"-rtc", "base=2020-01-01"},
		{"-overcommit", "mem-lock=on"},
		{"cpu"},
		{""},
		{"-cpu", "max", "-S"},
		{"-object", "memory-backend-file,mem-path=/x"},
		{"-uuid", "x,y"},
		{"-readconfig", "/x"},
		{"-cpu=host"},
	} {
		err := CheckArgs(args)
		if !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := CheckArgs([]string{"-vnc", ":1"}); !strings.Contains(err.Error(), `"-vnc"`) || !strings.Contains(err.Error(), "-cpu") {
		t.Errorf("it does not name what was wrong and what is right: %v", err)
	}
}

// TestManyAtOnce starts several VMs at once, which do not disturb each other.
func TestManyAtOnce(t *testing.T) {
	done := make(chan error)
	const many = 8
	for range many {
		c := fakeConfig(t, "")
		go func() {
			m, err := Start(deadline(t), c)
			if err == nil {
				err = errors.Join(m.Kill(deadline(t)), m.Close())
			}
			done <- err
		}()
	}
	for range many {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
