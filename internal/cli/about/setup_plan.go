package about

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/image"
)

// setupStep is one thing that is missing.
type setupStep struct {
	Why      string   `json:"why"`
	Commands []string `json:"commands"` // lines of shell; none: to be done by hand

	kernelDir string // directory that has the kernel of VMs after the commands
}

// machine is what the plan of a setup depends on.
type machine struct {
	home       string
	manager    string // apt-get, dnf, zypper, pacman or apk; empty: another
	debian     bool   // and not a relative, whose kernels have other names
	user       string
	root       bool
	sudo       bool // commands for root are run with sudo
	systemd    bool
	programs   []string
	ranges     bool // the user has ranges of user and group ids
	kernel     bool // a kernel for VMs can be read
	busybox    bool // a static one, which VMs without a named image are made of
	kvm        string
	restricted []string // settings of the kernel that refuse user namespaces: NAME=VALUE that allows them
	engine     string   // the socket of a container engine: open, denied or empty
}

// searchedPrograms are the programs that a setup may install.
var searchedPrograms = []string{"qemu-system-x86_64", "newuidmap", "dockerd", "podman"}

// inspectMachine looks at this machine.
func inspectMachine(home string) machine {
	m := machine{home: home, root: os.Geteuid() == 0, kvm: stateOf("/dev/kvm"), engine: stateOf("/var/run/docker.sock")}
	for _, name := range []string{"apt-get", "dnf", "zypper", "pacman", "apk"} {
		if _, err := exec.LookPath(name); err == nil {
			m.manager = name
			break
		}
	}
	release, _ := os.ReadFile("/etc/os-release") // without it, it is no Debian
	m.debian = slices.Contains(strings.Split(string(release), "\n"), "ID=debian")
	if u, err := user.Current(); err == nil {
		m.user = u.Username
	}
	_, err := image.FindBusybox()
	m.busybox = err == nil
	_, err = exec.LookPath("sudo")
	m.sudo = err == nil && !m.root
	_, err = os.Stat("/run/systemd/system")
	m.systemd = err == nil
	for _, name := range searchedPrograms {
		if findProgram(name) {
			m.programs = append(m.programs, name)
		}
	}
	m.ranges = hasRange("/etc/subuid", m.user) && hasRange("/etc/subgid", m.user)
	for _, pattern := range []string{"/boot/vmlinuz-*", "/usr/lib/modules/*/vmlinuz", "/lib/modules/*/vmlinuz", filepath.Join(home, "kernel", "boot", "vmlinuz-*")} {
		files, _ := filepath.Glob(pattern) // the pattern is well-formed
		m.kernel = m.kernel || slices.ContainsFunc(files, func(f string) bool { return stateOf(f) == "open" })
	}
	for _, s := range []struct{ file, refuses, allows string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if b, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(b)) == s.refuses {
			m.restricted = append(m.restricted, s.allows)
		}
	}
	return m
}

// findProgram reports whether a program is in $PATH or where root's programs are.
func findProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil || stateOf("/usr/sbin/"+name) != ""
}

// stateOf reports whether this user can open a file: open, denied, or empty if there is none.
func stateOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if info.Mode().Type() == os.ModeSocket { // it is not opened, but connected to with the right to write
		if info.Mode().Perm()&0o002 != 0 || os.Geteuid() == 0 {
			return "open"
		}
		return "denied"
	}
	f, err := os.Open(path)
	if err != nil {
		return "denied"
	}
	_ = f.Close() // it was only a question
	return "open"
}

// hasRange reports whether a user has a range of ids in a file like /etc/subuid.
func hasRange(file, name string) bool {
	b, _ := os.ReadFile(file) // no file has no ranges
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, name+":") {
			return true
		}
	}
	return false
}

// packageNames are the packages of each package manager, by what needs them.
var packageNames = map[string]map[string]string{
	"qemu":    {"apt-get": "qemu-system-x86", "dnf": "qemu-system-x86-core virtiofsd", "zypper": "qemu-x86 virtiofsd", "pacman": "qemu-system-x86 virtiofsd", "apk": "qemu-system-x86_64 virtiofsd"},
	"kernel":  {"dnf": "kernel-core", "zypper": "kernel-default", "pacman": "linux", "apk": "linux-virt"},
	"busybox": {"apt-get": "busybox-static", "dnf": "busybox", "zypper": "busybox-static", "pacman": "busybox", "apk": "busybox-static"},
	"uidmap":  {"apt-get": "uidmap", "dnf": "shadow-utils", "zypper": "shadow", "pacman": "shadow", "apk": "shadow-uidmap"},
	"docker":  {"apt-get": "docker.io", "dnf": "moby-engine", "zypper": "docker", "pacman": "docker", "apk": "docker"},
}

// installVerbs are how package managers install.
var installVerbs = map[string]string{
	"apt-get": "apt-get install -y --no-install-recommends", "dnf": "dnf install -y", "zypper": "zypper --non-interactive install",
	"pacman": "pacman -S --noconfirm --needed", "apk": "apk add",
}

// asRoot returns a command that runs as root.
func (m machine) asRoot(command string) string {
	if m.sudo {
		return "sudo " + command
	}
	return command
}

// install returns the step that installs what something needs.
func (m machine) install(what, why string) setupStep {
	s := setupStep{Why: why}
	if names := packageNames[what][m.manager]; names != "" {
		s.Commands = []string{m.asRoot(installVerbs[m.manager] + " " + names)}
	}
	return s
}

func (m machine) has(name string) bool { return slices.Contains(m.programs, name) }

// planSetup returns the steps that a driver needs on a machine. works tells that the driver works already.
func planSetup(driver string, m machine, works bool) []setupStep {
	var steps []setupStep
	add := func(s setupStep) { steps = append(steps, s) }
	switch driver {
	case "namespace":
		steps = m.planNamespace()
	case "microvm":
		if !m.has("qemu-system-x86_64") {
			add(m.install("qemu", "QEMU is missing"))
		}
		if !m.kernel && !works {
			add(m.planKernel())
		}
		if !m.busybox {
			add(m.install("busybox", "there is no static busybox, of which VMs are made that name no image: without it they need an image registry"))
		}
		switch {
		case m.kvm == "denied":
			add(setupStep{Why: "this user may not use KVM, without which VMs are slow; log in again after it", Commands: []string{m.asRoot("usermod -aG kvm " + m.user)}})
		case m.kvm == "" && !works:
			add(setupStep{Why: "there is no /dev/kvm: VMs are emulated, which is slow. Switch on virtualisation in the firmware, or nested virtualisation on the host of this VM"})
		}
	case "docker":
		switch {
		case works:
		case m.engine == "" && !m.has("dockerd") && !m.has("podman"):
			s := m.install("docker", "no container engine is installed")
			if m.systemd && len(s.Commands) > 0 {
				s.Commands = append(s.Commands, m.asRoot("systemctl enable --now docker"))
			}
			add(s)
		case m.engine == "" && m.systemd && m.has("dockerd"):
			add(setupStep{Why: "the container engine does not run", Commands: []string{m.asRoot("systemctl enable --now docker")}})
		case m.engine == "":
			add(setupStep{Why: "the container engine does not run: start it (dockerd, or podman system service)"})
		case m.engine == "denied":
			add(setupStep{Why: "this user may not use the container engine. Members of its group control the machine, as root does; log in again after it", Commands: []string{m.asRoot("usermod -aG docker " + m.user)}})
		}
	}
	return steps
}

// planNamespace returns the steps for sandboxes of namespaces. Root needs none.
func (m machine) planNamespace() []setupStep {
	if m.root {
		return nil
	}
	var steps []setupStep
	if len(m.restricted) > 0 {
		var lines []string
		for _, s := range m.restricted {
			lines = append(lines, m.asRoot("sysctl -w "+s), fmt.Sprintf("echo %s | %s", s, m.asRoot("tee -a /etc/sysctl.d/60-atoll.conf")))
		}
		steps = append(steps, setupStep{Why: "this kernel refuses user namespaces to users. Allowing them opens more of the kernel to every program of the machine", Commands: lines})
	}
	if !m.has("newuidmap") {
		steps = append(steps, m.install("uidmap", "newuidmap is missing: sandboxes have one user only"))
	}
	if !m.ranges {
		steps = append(steps, setupStep{
			Why:      "this user has no range of ids for the users of sandboxes; others must not have this one (/etc/subuid)",
			Commands: []string{m.asRoot("usermod --add-subuids 524288-589823 --add-subgids 524288-589823 " + m.user)},
		})
	}
	return steps
}

// planKernel returns the step that gets a kernel for VMs. On Debian it is unpacked, not installed: an
// installed one would be what the machine itself boots next.
func (m machine) planKernel() setupStep {
	if !m.debian || m.manager != "apt-get" {
		s := m.install("kernel", "no kernel for VMs can be read in /boot or /lib/modules")
		if len(s.Commands) == 0 {
			s.Why += ": name one with microvm.kernel and microvm.modules (docs/microvm.md)"
		}
		return s
	}
	dir := filepath.Join(m.home, "kernel")
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	return setupStep{
		Why: "no kernel for VMs can be read; Debian's is unpacked into " + dir + ", and nothing is installed in /boot",
		Commands: []string{
			m.asRoot("apt-get update -q"),
			"rm -rf " + quoted + " && mkdir -p " + quoted + " && cd " + quoted + " && apt-get -o APT::Sandbox::User=root download " +
				`"$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)"` +
				" && dpkg-deb --fsys-tarfile ./*.deb | tar -x --no-same-owner ./boot ./lib && rm ./*.deb",
		},
		kernelDir: dir,
	}
}
