package vminit

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

// preparedVM is a VM that has applied a form.
type preparedVM struct {
	guest  *guest.Server
	limits Limits
}

// applySetup configures the VM as its setup says, and returns its guest agent. redirected is the
// result of prepareKernel; f is nil if no form was applied.
func applySetup(s *Setup, m *modules, redirected bool, f *preparedVM) (*guest.Server, error) {
	// First the properties that distinguish this VM from others with the same memory.
	if err := reseedRandom(s.Seed); err != nil {
		return nil, fmt.Errorf("randomness: %w", err)
	}
	if s.Time != 0 {
		if err := setClock(time.Unix(0, s.Time)); err != nil {
			return nil, err
		}
	}
	if err := s.setDefaults(); err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return nil, os.NewSyscallError("sethostname", err)
	}
	if f == nil {
		server, err := s.applyForm(m, redirected)
		if err != nil {
			return nil, err
		}
		return server, s.writeOwnFiles(false)
	}
	if err := s.Limits.applyLimits(f.limits); err != nil {
		return nil, err
	}
	f.guest.Config.Env = s.Guest.Env
	return f.guest, s.writeOwnFiles(true)
}

// applyForm performs the part of the setup that is the same in all VMs of a kind.
func (s *Setup) applyForm(m *modules, redirected bool) (*guest.Server, error) {
	if err := s.mountFileSystems(m); err != nil {
		return nil, err
	}
	if err := s.setUpNetwork(redirected); err != nil {
		return nil, err
	}
	group, err := s.Limits.makeGroup()
	if err != nil {
		return nil, err
	}
	if err := s.Limits.guardKVM(group); err != nil {
		return nil, err
	}
	s.Guest.Cgroup, s.Guest.KeepRights = group, true
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
	server.Quit = func() { powerOff(free) }
	return server, nil
}

// setDefaults sets the defaults, and checks the values that become part of files.
func (s *Setup) setDefaults() error {
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

// mountFileSystems mounts all disks and shares, and makes the standard directories.
func (s *Setup) mountFileSystems(m *modules) error {
	for _, share := range s.Shares { // the modules disappear with the initramfs
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
			_ = m.load(name) // fails for another maker's processor, or one without virtualisation
		}
	}
	if err := mountRoot(s.Disks); err != nil {
		return err
	}
	if err := mountAll(lateMounts()); err != nil {
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
	return s.makeStandardDirs()
}

// poolHead is the head of the kernel's struct rand_pool_info.
type poolHead struct{ bits, size int32 }

// reseedRandom adds a seed to the kernel's random number generator, and reseeds it, so that no
// other VM has the same state.
func reseedRandom(seed []byte) error {
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

// hardenKernel sets kernel parameters that Linux leaves open for the sake of old programs.
func hardenKernel() error {
	for _, s := range [][2]string{
		{"kernel/core_pattern", "/dev/null"}, // also no program that the kernel would start
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
