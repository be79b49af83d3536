package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// qemu runs QEMU, from version 6.
type qemu struct{}

// charDevs are the descriptors of QEMU's sockets to the monitor.
type charDevs struct{ qmp, console, port int }

// qemuReadDirs are the directories of QEMU's data files and libraries.
var qemuReadDirs = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-efi", "/usr/share/edk2", "/etc/ld.so.cache", "/nix/store", "/gnu/store"}

// qemuDevices are the devices of the host that QEMU opens.
var qemuDevices = []string{"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"}

func (qemu) buildArgs(o *monitorOrder, p *inheritedFiles) ([]string, error) {
	p.readPaths = append(p.readPaths, qemuReadDirs...)
	p.readPaths = append(p.readPaths, o.QEMU, filepath.Join(filepath.Dir(o.QEMU), "../share/qemu"))
	p.writePaths = append(p.writePaths, qemuDevices...)
	a := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-smp", strconv.Itoa(o.CPUs),
	}
	if o.Type == Microvm {
		a = append(a, "-global", "virtio-mmio.force-legacy=false") // virtiofsd refuses a legacy device
	}
	a = append(a, cpuArgs(o, p)...)
	memory, err := memoryArgs(o, p)
	if err != nil {
		return nil, err
	}
	a = append(a, memory...)
	if o.Template != "" {
		a = append(a, "-incoming", "defer")
	} else {
		kernel, err := kernelArgs(o, p)
		if err != nil {
			return nil, err
		}
		a = append(a, kernel...)
	}
	disks, err := diskArgs(o, p)
	if err != nil {
		return nil, err
	}
	a = append(a, disks...)
	a = append(a, shareArgs(o, p)...)
	for i, n := range o.NICs {
		id := "n" + strconv.Itoa(i)
		a = append(a, "-netdev", fmt.Sprintf("tap,id=%s,fd=%d", id, p.addFile(n.Tap)),
			"-device", o.deviceName("virtio-net", "netdev="+id, "mac="+n.MAC))
	}
	return append(a, o.extraArgs()...), nil
}

// streamArgs returns the arguments for the connections to the monitor.
func (o *monitorOrder) streamArgs(w charDevs) []string {
	socket := func(id string, fd int) string { return fmt.Sprintf("socket,id=%s,fd=%d", id, fd) }
	return []string{
		"-chardev", socket("qmp", w.qmp), "-mon", "chardev=qmp,mode=control",
		"-chardev", socket("console", w.console), "-serial", "chardev:console",
		"-chardev", socket("atoll", w.port), "-device", o.deviceName("virtio-serial", "max_ports=2"),
		"-device", "virtserialport,chardev=atoll,name=atoll",
	}
}

// deviceName returns the argument for a virtio device on the VM's bus.
func (o *monitorOrder) deviceName(kind string, options ...string) string {
	suffix := "-device"
	if o.Type == Q35 {
		suffix = "-pci"
	}
	return strings.Join(append([]string{kind + suffix}, options...), ",")
}

// emulatedCPU is the processor that QEMU emulates. Without erms and fsrm the kernel does not clear
// and copy pages by "rep movsb", which is emulated byte by byte; without la57 page tables have one
// level less.
const emulatedCPU = "max,-erms,-fsrm,-la57"

func cpuArgs(o *monitorOrder, p *inheritedFiles) []string {
	if o.Accel == KVM {
		p.writePaths = append(p.writePaths, "/dev/kvm")
		return []string{"-accel", "kvm", "-cpu", o.cpuModel("host")}
	}
	return []string{"-accel", "tcg,thread=multi,tb-size=128", "-cpu", o.cpuModel(emulatedCPU)}
}

// cpuModel returns the value of -cpu for a model, without the extensions for nested VMs if they are
// not wanted. The last mention of a feature counts.
func (o *monitorOrder) cpuModel(model string) string {
	if o.NoNested && runtime.GOARCH == "amd64" {
		model += ",-vmx,-svm"
	}
	return model
}

// extraArgs returns the arguments that the user adds.
func (o *monitorOrder) extraArgs() []string {
	args := slices.Clone(o.Args)
	for i := 1; i < len(args); i++ {
		if args[i-1] == "-cpu" || args[i-1] == "--cpu" {
			args[i] = o.cpuModel(args[i])
		}
	}
	return args
}

// memoryArgs returns the arguments for the VM's memory: anonymous, a file to be saved, a clone's
// private mapping of that file, or memory that is shared with other processes.
func memoryArgs(o *monitorOrder, p *inheritedFiles) ([]string, error) {
	size := strconv.FormatInt(o.Memory>>20, 10) + "M"
	kind := o.Type
	if kind == Microvm {
		kind += ",acpi=on"
	} else {
		kind += ",vmport=off"
	}
	object := ""
	switch {
	case o.Save != "":
		fd, err := p.open(filepath.Join(o.Save, memoryFile), os.O_RDWR)
		if err != nil {
			return nil, err
		}
		object = fmt.Sprintf("memory-backend-file,id=memory,size=%s,share=on,mem-path=%s", size, p.selfPath(fd, &p.writePaths))
	case o.Template != "":
		fd, err := p.open(filepath.Join(o.Template, memoryFile), os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		path := p.selfPath(fd, &p.readPaths)
		object = fmt.Sprintf("memory-backend-file,id=memory,size=%s,share=off,mem-path=%s", size, path)
		if atLeast(o.Version, 8, 2) {
			object += ",readonly=on,rom=off"
		} else {
			p.servedPath, p.servedFile = path, p.own[len(p.own)-1]
		}
	case o.hasVirtiofs():
		object = fmt.Sprintf("memory-backend-memfd,id=memory,size=%s,share=on", size)
	default:
		return []string{"-M", kind, "-m", size}, nil
	}
	return []string{"-M", kind + ",memory-backend=memory", "-m", size, "-object", object}, nil
}

func (o *monitorOrder) hasVirtiofs() bool {
	for _, s := range o.Shares {
		if s.Proto == Virtiofs {
			return true
		}
	}
	return false
}

// selfPath returns a path by which a process can open an inherited file again, independent of the
// file's directories, and adds it to a list of allowed paths.
func (p *inheritedFiles) selfPath(fd int, list *[]string) string {
	path := "/proc/self/fd/" + strconv.Itoa(fd)
	*list = append(*list, path)
	return path
}

// kernelParameters returns the kernel's command line. Without the first two parameters, a kernel
// would wait for a key after a panic; with the last one it does not test its ciphers at each boot.
func kernelParameters(o *monitorOrder) string {
	s := "panic=-1 reboot=t quiet console=ttyS0 cryptomgr.notests"
	if o.Accel == TCG {
		s += emulatedParameters
	}
	if o.Type == Microvm && o.Accel == TCG {
		// There is no timer to measure the counter with: the kernel would wait forever.
		s += " tsc_early_khz=" + strconv.FormatInt(o.TSC, 10)
	}
	if o.Append != "" {
		s += " " + o.Append
	}
	return s
}

// emulatedParameters switch off features that are expensive on an emulated processor and useless in
// a VM of its own. Nothing is executed speculatively there, but each mitigation is emulated.
// AppArmor and TOMOYO have no rules, but are called for each file and program. Pressure accounting
// runs at each task switch, and is not used. Feature 112 means that "rep stosq" is fast: it is
// emulated word by word, slower than a loop. The clock is the host's: a kernel that compares it
// with timer ticks, which are late on a busy host, would switch to a clock that counts ticks, and
// one that waits for some ticks at its start would panic. The
// last two are for process 1: it does likewise, and its goroutines are not preempted by signals
// only because the processor is slow.
const emulatedParameters = " mitigations=off lsm=landlock,yama psi=0 clearcpuid=112 tsc=reliable no_timer_check atoll.emulated GODEBUG=asyncpreemptoff=1"

func kernelArgs(o *monitorOrder, p *inheritedFiles) ([]string, error) {
	fd, err := p.open(o.Kernel, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("%w: kernel: %w", atoll.ErrUnavailable, err)
	}
	a := []string{"-kernel", p.selfPath(fd, &p.readPaths), "-append", kernelParameters(o)}
	if o.Initrd == "" {
		return a, nil
	}
	if fd, err = p.open(o.Initrd, os.O_RDONLY); err != nil {
		return nil, fmt.Errorf("%w: initrd: %w", atoll.ErrUnavailable, err)
	}
	return append(a, "-initrd", p.selfPath(fd, &p.readPaths)), nil
}

// diskArgs returns the arguments for the block devices. QEMU can't open their files: it inherits
// each layer as a descriptor, and ignores the backing file that a header names.
func diskArgs(o *monitorOrder, p *inheritedFiles) (a []string, err error) {
	for i, d := range o.Disks {
		layers := append([]Backing{{d.File, d.Format}}, d.Backing...)
		below := ""
		for n := len(layers) - 1; n >= 0; n-- {
			readOnly := n > 0 || d.ReadOnly
			flags := os.O_RDWR
			if readOnly {
				flags = os.O_RDONLY
			}
			fd, err := p.open(layers[n].File, flags)
			if err != nil {
				return nil, fmt.Errorf("%w: disk %s: %w", atoll.ErrUnavailable, d.Serial, err)
			}
			set, node := len(p.files), fmt.Sprintf("d%dl%d", i, n)
			file := map[string]any{"node-name": node + "f", "driver": "file", "filename": "/dev/fdset/" + strconv.Itoa(set), "read-only": readOnly, "discard": "unmap"}
			image := map[string]any{"node-name": node, "driver": layers[n].Format, "file": node + "f", "read-only": readOnly, "discard": "unmap"}
			if layers[n].Format == "qcow2" {
				image["backing"] = nil
				if below != "" {
					image["backing"] = below
				}
			}
			a = append(a, "-add-fd", fmt.Sprintf("fd=%d,set=%d", fd, set))
			for _, node := range []map[string]any{file, image} {
				text, err := json.Marshal(node)
				if err != nil {
					return nil, err
				}
				a = append(a, "-blockdev", string(text))
			}
			below = node
		}
		a = append(a, "-device", o.deviceName("virtio-blk", "drive="+below, "serial="+d.Serial, "werror=stop", "rerror=report"))
	}
	return a, nil
}

func shareArgs(o *monitorOrder, p *inheritedFiles) (a []string) {
	for i, s := range o.Shares {
		id := "s" + strconv.Itoa(i)
		if s.Proto == Virtiofs {
			a = append(a, "-chardev", fmt.Sprintf("socket,id=%s,fd=%d", id, p.addFile(s.conn)),
				"-device", o.deviceName("vhost-user-fs", "chardev="+id, "tag="+s.Tag, "queue-size=1024"))
			continue
		}
		if s.conn != nil {
			a = append(a, "-fsdev", fmt.Sprintf("proxy,id=%s,sock_fd=%d", id, p.addFile(s.conn)), "-device", o.deviceName("virtio-9p", "fsdev="+id, "mount_tag="+s.Tag))
			continue
		}
		fs := "local,id=" + id + ",security_model=none,multidevs=remap,path=" + strings.ReplaceAll(s.Dir, ",", ",,")
		if s.ReadOnly {
			fs += ",readonly=on"
			p.readPaths = append(p.readPaths, s.Dir)
		} else {
			p.writePaths = append(p.writePaths, s.Dir)
		}
		a = append(a, "-fsdev", fs, "-device", o.deviceName("virtio-9p", "fsdev="+id, "mount_tag="+s.Tag))
	}
	return a
}

// atLeast reports whether a version such as "7.2.22" is at least major.minor.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// qemuControl gives commands to QEMU.
type qemuControl struct {
	*qmp
	migrated chan string // result of a migration
}

func (qemu) connectControl(ctx context.Context, conn *net.UnixConn, events func(event)) (controller, error) {
	c := &qemuControl{migrated: make(chan string, 1)}
	q, err := newQMP(ctx, conn, func(name string, data json.RawMessage) { c.translateEvent(name, data, events) })
	if err != nil {
		return nil, err
	}
	c.qmp = q
	return c, nil
}

// translateEvent reports an event of QEMU as an event.
func (c *qemuControl) translateEvent(name string, data json.RawMessage, events func(event)) {
	var d struct {
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Action  string `json:"action"`
		NoSpace bool   `json:"nospace"`
	}
	_ = json.Unmarshal(data, &d) // missing fields are empty
	switch name {
	case "STOP":
		events(event{what: eventPaused})
	case "RESUME":
		events(event{what: eventRuns})
	case "BLOCK_IO_ERROR":
		if d.Action == "stop" {
			events(event{what: eventStuck, text: printableLine(d.Reason, maxShown), space: d.NoSpace})
		}
	case "MIGRATION":
		if d.Status == "completed" || d.Status == "failed" || d.Status == "cancelled" {
			select {
			case c.migrated <- d.Status:
			default: // only the first result is awaited
			}
		}
	}
}

func (c *qemuControl) version() string { return c.versionText }

func (c *qemuControl) pause(ctx context.Context) error  { return c.runCommand(ctx, "stop", nil) }
func (c *qemuControl) resume(ctx context.Context) error { return c.runCommand(ctx, "cont", nil) }

// stateName is QEMU's name for the file of a VM's state.
const stateName = "state"

func (c *qemuControl) save(ctx context.Context, state *os.File) error {
	if err := c.prepareMigration(ctx, state); err != nil {
		return err
	}
	if err := c.runCommand(ctx, "migrate", map[string]string{"uri": "fd:" + stateName}); err != nil {
		return err
	}
	return c.waitForMigration(ctx)
}

func (c *qemuControl) load(ctx context.Context, state *os.File) error {
	if err := c.prepareMigration(ctx, state); err != nil {
		return err
	}
	if err := c.runCommand(ctx, "migrate-incoming", map[string]string{"uri": "fd:" + stateName}); err != nil {
		return err
	}
	if err := c.waitForMigration(ctx); err != nil {
		return err
	}
	return c.resume(ctx)
}

// prepareMigration configures the migration: memory in a shared file is not part of it.
func (c *qemuControl) prepareMigration(ctx context.Context, state *os.File) error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	err := c.runCommand(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []capability{{"x-ignore-shared", true}, {"events", true}}})
	if err != nil {
		return err
	}
	return c.runCommand(ctx, "getfd", map[string]string{"fdname": stateName}, state)
}

// waitForMigration waits until the state was written or read.
func (c *qemuControl) waitForMigration(ctx context.Context) error {
	select {
	case how := <-c.migrated:
		if how != "completed" {
			return fmt.Errorf("%w: QEMU: the VM's state: %s", atoll.ErrUnavailable, how)
		}
		return nil
	case <-c.done:
		return fmt.Errorf("%w: QEMU: the VM's state: %w", atoll.ErrUnavailable, c.endError())
	case <-ctx.Done():
		return fmt.Errorf("%w: QEMU: the VM's state: %w", atoll.ErrUnavailable, context.Cause(ctx))
	}
}

var errNoQEMU = errors.New("QEMU is missing: install qemu-system-x86 (Debian, Ubuntu), qemu-kvm (Fedora, RHEL) or qemu-system-x86_64 (others), or name it in the configuration")
