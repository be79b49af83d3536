package inside

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// formed is a machine that has its form.
type formed struct {
	guest  *guest.Server
	limits Limits
}

// apply makes the machine what it is told to be, and its guest. led is prepare's; f
// is nil if it has no form yet.
func apply(s *Setup, m *modules, led bool, f *formed) (*guest.Server, error) {
	// First what makes this machine another than those of the same memory.
	if err := reseed(s.Seed); err != nil {
		return nil, fmt.Errorf("randomness: %w", err)
	}
	if s.Time != 0 {
		if err := setClock(time.Unix(0, s.Time)); err != nil {
			return nil, err
		}
	}
	if err := s.fill(); err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return nil, os.NewSyscallError("sethostname", err)
	}
	if f == nil {
		server, err := s.form(m, led)
		if err != nil {
			return nil, err
		}
		return server, s.personal(false)
	}
	if err := s.Limits.set(f.limits); err != nil {
		return nil, err
	}
	f.guest.Config.Env = s.Guest.Env
	return f.guest, s.personal(true)
}

// form does what is the same in all machines of a kind.
func (s *Setup) form(m *modules, led bool) (*guest.Server, error) {
	if err := s.fileSystems(m); err != nil {
		return nil, err
	}
	if err := s.network(led); err != nil {
		return nil, err
	}
	group, err := s.Limits.group()
	if err != nil {
		return nil, err
	}
	if err := s.Limits.guard(group); err != nil {
		return nil, err
	}
	s.Guest.Cgroup, s.Guest.Whole = group, true
	server, err := guest.Prepare(s.Guest)
	if err != nil {
		return nil, err
	}
	var free trims
	for _, d := range s.Disks {
		if d.Trim && !d.ReadOnly {
			free = append(free, d.Path)
		}
	}
	server.Quit = func() { off(free) }
	return server, nil
}

// fill puts in what was left open, and checks what becomes part of files.
func (s *Setup) fill() error {
	if s.Hostname == "" {
		s.Hostname = "atoll"
	}
	if len(s.Hostname) > 64 || strings.ContainsAny(s.Hostname, " \t\n\x00") {
		return fmt.Errorf("%w: hostname %q", atoll.ErrInvalid, s.Hostname)
	}
	if s.MachineID == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		s.MachineID = hex.EncodeToString(b[:])
	}
	if b, err := hex.DecodeString(s.MachineID); err != nil || len(b) != 16 {
		return fmt.Errorf("%w: machine id %q: must be 32 hexadecimal digits", atoll.ErrInvalid, s.MachineID)
	}
	if strings.ContainsAny(s.User.Name+s.User.Home, ":\n\x00") {
		return fmt.Errorf("%w: user %q with home %q", atoll.ErrInvalid, s.User.Name, s.User.Home)
	}
	return nil
}

// fileSystems mounts all, and makes what every root file system has.
func (s *Setup) fileSystems(m *modules) error {
	for _, share := range s.Shares { // the modules go with the initramfs
		if err := m.load(shareModules(share.Proto)...); err != nil {
			return fmt.Errorf("share %s: %w", share.Path, err)
		}
	}
	if s.Network.NIC != "" {
		if err := m.load("virtio_net", "af_packet"); err != nil {
			return err
		}
	}
	if s.Limits.Nested != nil {
		for _, name := range kvmModules() {
			_ = m.load(name) // for the processor of another maker, or for one that has no virtualisation
		}
	}
	if err := mountRoot(s.Disks); err != nil {
		return err
	}
	if err := mountAll(late()); err != nil {
		return err
	}
	for _, d := range s.Disks[1:] {
		if err := ensureDir(d.Path, 0o755); err != nil {
			return err
		}
		if err := mountDisk(d, d.Path); err != nil {
			return err
		}
	}
	for _, share := range s.Shares {
		if err := mountShare(share); err != nil {
			return err
		}
	}
	return s.furnish()
}

// poolHead is struct rand_pool_info of the kernel, before its bytes.
type poolHead struct{ bits, size int32 }

// reseed gives the kernel randomness that no other machine has, and lets
// nothing of what it had before count.
func reseed(seed []byte) error {
	if len(seed) == 0 {
		return nil
	}
	f, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int32(len(seed))
	info := append(unsafe.Slice((*byte)(unsafe.Pointer(&poolHead{bits: size * 8, size: size})), 8), seed...)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0]))); e != 0 {
		return os.NewSyscallError("RNDADDENTROPY", e)
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), rndReseed, 0); e != 0 {
		return os.NewSyscallError("RNDRESEEDCRNG", e)
	}
	return nil
}

// rndReseed is RNDRESEEDCRNG, since Linux 4.17.
const rndReseed = 0x5207

func setClock(t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return os.NewSyscallError("clock_settime", err)
	}
	return nil
}

// harden sets what Linux leaves open for the sake of old programs, and ends
// what looks into other machines' hardware.
func harden() error {
	for _, s := range [][2]string{
		{"kernel/core_pattern", "/dev/null"}, // and no program of the kernel's
		{"kernel/dmesg_restrict", "1"},
		{"kernel/kptr_restrict", "2"},
		{"kernel/kexec_load_disabled", "1"},
		{"kernel/perf_event_paranoid", "3"},
		{"kernel/sysrq", "0"},
		{"kernel/unprivileged_bpf_disabled", "1"},
		{"kernel/yama/ptrace_scope", "1"},
		{"fs/protected_fifos", "1"},
		{"fs/protected_hardlinks", "1"},
		{"fs/protected_regular", "1"},
		{"fs/protected_symlinks", "1"},
		{"fs/suid_dumpable", "0"},
		{"vm/mmap_min_addr", "65536"},
		{"vm/panic_on_oom", "0"},
		{"net/ipv4/ip_unprivileged_port_start", "0"},
		{"net/ipv4/ping_group_range", "0 2147483647"},
	} {
		err := os.WriteFile("/proc/sys/"+s[0], []byte(s[1]), 0)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	core := unix.Rlimit{}
	return unix.Setrlimit(unix.RLIMIT_CORE, &core)
}
