package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// qemu is QEMU, from version 6.
type qemu struct{}

// Chardevs of QEMU that are sockets of the monitor.
type ways struct{ qmp, console, port int }

// dirs are where QEMU finds its parts and its libraries.
var dirs = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-efi", "/usr/share/edk2", "/etc/ld.so.cache", "/nix/store", "/gnu/store"}

// devices are those of the host that QEMU opens.
var devices = []string{"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"}

func (qemu) arguments(o *order, p *placer) ([]string, error) {
	p.read = append(p.read, dirs...)
	p.read = append(p.read, o.QEMU, filepath.Join(filepath.Dir(o.QEMU), "../share/qemu"))
	p.write = append(p.write, devices...)
	a := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-smp", strconv.Itoa(o.CPUs),
	}
	if o.Type == Microvm {
		a = append(a, "-global", "virtio-mmio.force-legacy=false") // virtiofsd refuses a legacy device
	}
	a = append(a, processors(o, p)...)
	memory, err := memory(o, p)
	if err != nil {
		return nil, err
	}
	a = append(a, memory...)
	if o.Template != "" {
		a = append(a, "-incoming", "defer")
	} else {
		kernel, err := kernel(o, p)
		if err != nil {
			return nil, err
		}
		a = append(a, kernel...)
	}
	disks, err := disks(o, p)
	if err != nil {
		return nil, err
	}
	a = append(a, disks...)
	a = append(a, shares(o, p)...)
	for i, n := range o.NICs {
		id := "n" + strconv.Itoa(i)
		a = append(a, "-netdev", fmt.Sprintf("tap,id=%s,fd=%d", id, p.file(n.Tap)),
			"-device", o.device("virtio-net", "netdev="+id, "mac="+n.MAC))
	}
	return append(a, o.Args...), nil
}

// streams are the arguments for the monitor's own connections.
func (o *order) streams(w ways) []string {
	socket := func(id string, fd int) string { return fmt.Sprintf("socket,id=%s,fd=%d", id, fd) }
	return []string{
		"-chardev", socket("qmp", w.qmp), "-mon", "chardev=qmp,mode=control",
		"-chardev", socket("console", w.console), "-serial", "chardev:console",
		"-chardev", socket("atoll", w.port), "-device", o.device("virtio-serial", "max_ports=2"),
		"-device", "virtserialport,chardev=atoll,name=atoll",
	}
}

// device names a virtio device as the machine's bus wants it.
func (o *order) device(kind string, options ...string) string {
	suffix := "-device"
	if o.Type == Q35 {
		suffix = "-pci"
	}
	return strings.Join(append([]string{kind + suffix}, options...), ",")
}

// emulatedCPU is what QEMU plays. Without erms and fsrm the kernel does not clear
// and copy pages by "rep movsb", which is emulated byte by byte; without la57 page
// tables have a level less to walk.
const emulatedCPU = "max,-erms,-fsrm,-la57"

func processors(o *order, p *placer) []string {
	if o.Accel == KVM {
		p.write = append(p.write, "/dev/kvm")
		return []string{"-accel", "kvm", "-cpu", "host"}
	}
	return []string{"-accel", "tcg,thread=multi,tb-size=128", "-cpu", emulatedCPU}
}

// memory decides what the machine's memory is: anonymous, a file that is saved,
// that file as a clone sees it, or what other processes share.
func memory(o *order, p *placer) ([]string, error) {
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
		object = fmt.Sprintf("memory-backend-file,id=memory,size=%s,share=on,mem-path=%s", size, p.self(fd, &p.write))
	case o.Template != "":
		fd, err := p.open(filepath.Join(o.Template, memoryFile), os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		path := p.self(fd, &p.read)
		object = fmt.Sprintf("memory-backend-file,id=memory,size=%s,share=off,mem-path=%s", size, path)
		if atLeast(o.Version, 8, 2) {
			object += ",readonly=on,rom=off"
		} else {
			p.lent, p.loan = path, p.own[len(p.own)-1]
		}
	case o.virtiofs():
		object = fmt.Sprintf("memory-backend-memfd,id=memory,size=%s,share=on", size)
	default:
		return []string{"-M", kind, "-m", size}, nil
	}
	return []string{"-M", kind + ",memory-backend=memory", "-m", size, "-object", object}, nil
}

func (o *order) virtiofs() bool {
	for _, s := range o.Shares {
		if s.Proto == Virtiofs {
			return true
		}
	}
	return false
}

// self is the path by which a process opens a file once more that it inherits,
// whatever directories lie above it; a list of paths that it may open has it.
func (p *placer) self(fd int, list *[]string) string {
	path := "/proc/self/fd/" + strconv.Itoa(fd)
	*list = append(*list, path)
	return path
}

// parameters are the kernel's that every machine gets. Without the first two a
// kernel that gives up would wait for somebody to press a key; with the last it
// does not test its ciphers anew at each boot.
func parameters(o *order) string {
	s := "panic=-1 reboot=t quiet console=ttyS0 cryptomgr.notests"
	if o.Accel == TCG {
		s += emulatedParameters
	}
	if o.Type == Microvm && o.Accel == TCG {
		// There is no timer to measure it with: the kernel would wait for ever.
		s += " tsc_early_khz=" + strconv.FormatInt(o.TSC, 10)
	}
	if o.Append != "" {
		s += " " + o.Append
	}
	return s
}

// emulatedParameters leave out what costs an emulated processor much and a machine
// of its own nothing. Nothing is speculated on there, but each detour around
// speculation is emulated. AppArmor and TOMOYO, which have no rules, are asked
// about each file and program; the pressure of each group is added up at each
// switch of tasks, for nobody. Feature 112 is "rep stosq" being good: it is
// emulated word by word, slower than a loop. And the clock is the host's: a kernel
// that compares it with ticks, which come late on a busy host, would give it up for
// one that counts these. The last two are for process 1: it does likewise, and
// goroutines that are slow because the processor is are not interrupted by signals.
const emulatedParameters = " mitigations=off lsm=landlock,yama psi=0 clearcpuid=112 tsc=reliable atoll.emulated GODEBUG=asyncpreemptoff=1"

func kernel(o *order, p *placer) ([]string, error) {
	fd, err := p.open(o.Kernel, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("%w: kernel: %w", atoll.ErrUnavailable, err)
	}
	a := []string{"-kernel", p.self(fd, &p.read), "-append", parameters(o)}
	if o.Initrd == "" {
		return a, nil
	}
	if fd, err = p.open(o.Initrd, os.O_RDONLY); err != nil {
		return nil, fmt.Errorf("%w: initrd: %w", atoll.ErrUnavailable, err)
	}
	return append(a, "-initrd", p.self(fd, &p.read)), nil
}

// disks are block devices whose files QEMU can't open: it gets them open, each
// layer by its own, and never looks at what a file's header says lies beneath.
func disks(o *order, p *placer) (a []string, err error) {
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
		a = append(a, "-device", o.device("virtio-blk", "drive="+below, "serial="+d.Serial, "werror=stop", "rerror=report"))
	}
	return a, nil
}

func shares(o *order, p *placer) (a []string) {
	for i, s := range o.Shares {
		id := "s" + strconv.Itoa(i)
		if s.Proto == Virtiofs {
			a = append(a, "-chardev", fmt.Sprintf("socket,id=%s,fd=%d", id, p.file(s.Conn)),
				"-device", o.device("vhost-user-fs", "chardev="+id, "tag="+s.Tag, "queue-size=1024"))
			continue
		}
		if s.Conn != nil {
			a = append(a, "-fsdev", fmt.Sprintf("proxy,id=%s,sock_fd=%d", id, p.file(s.Conn)), "-device", o.device("virtio-9p", "fsdev="+id, "mount_tag="+s.Tag))
			continue
		}
		fs := "local,id=" + id + ",security_model=none,multidevs=remap,path=" + strings.ReplaceAll(s.Dir, ",", ",,")
		if s.ReadOnly {
			fs += ",readonly=on"
			p.read = append(p.read, s.Dir)
		} else {
			p.write = append(p.write, s.Dir)
		}
		a = append(a, "-fsdev", fs, "-device", o.device("virtio-9p", "fsdev="+id, "mount_tag="+s.Tag))
	}
	return a
}

// atLeast compares a version such as "7.2.22".
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
	moved chan string // how a migration ended
}

func (qemu) control(ctx context.Context, conn *net.UnixConn, events func(event)) (controller, error) {
	c := &qemuControl{moved: make(chan string, 1)}
	q, err := newQMP(ctx, conn, func(name string, data json.RawMessage) { c.event(name, data, events) })
	if err != nil {
		return nil, err
	}
	c.qmp = q
	return c, nil
}

// event translates what QEMU tells.
func (c *qemuControl) event(name string, data json.RawMessage, events func(event)) {
	var d struct {
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Action  string `json:"action"`
		NoSpace bool   `json:"nospace"`
	}
	_ = json.Unmarshal(data, &d) // what is not there is empty
	switch name {
	case "STOP":
		events(event{what: eventPaused})
	case "RESUME":
		events(event{what: eventRuns})
	case "BLOCK_IO_ERROR":
		if d.Action == "stop" {
			events(event{what: eventStuck, text: printable(d.Reason, maxShown), space: d.NoSpace})
		}
	case "MIGRATION":
		if d.Status == "completed" || d.Status == "failed" || d.Status == "cancelled" {
			select {
			case c.moved <- d.Status:
			default: // nobody asked for a second one
			}
		}
	}
}

func (c *qemuControl) version() string { return c.is }

func (c *qemuControl) pause(ctx context.Context) error  { return c.do(ctx, "stop", nil) }
func (c *qemuControl) resume(ctx context.Context) error { return c.do(ctx, "cont", nil) }

// stateName is what the file of a machine's state is called between us and QEMU.
const stateName = "state"

func (c *qemuControl) save(ctx context.Context, state *os.File) error {
	if err := c.prepare(ctx, state); err != nil {
		return err
	}
	if err := c.do(ctx, "migrate", map[string]string{"uri": "fd:" + stateName}); err != nil {
		return err
	}
	return c.settle(ctx)
}

func (c *qemuControl) load(ctx context.Context, state *os.File) error {
	if err := c.prepare(ctx, state); err != nil {
		return err
	}
	if err := c.do(ctx, "migrate-incoming", map[string]string{"uri": "fd:" + stateName}); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return c.resume(ctx)
}

// prepare says how states are moved: without the memory that lies in a file.
func (c *qemuControl) prepare(ctx context.Context, state *os.File) error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	err := c.do(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []capability{{"x-ignore-shared", true}, {"events", true}}})
	if err != nil {
		return err
	}
	return c.do(ctx, "getfd", map[string]string{"fdname": stateName}, state)
}

// settle waits until the state has moved.
func (c *qemuControl) settle(ctx context.Context) error {
	select {
	case how := <-c.moved:
		if how != "completed" {
			return fmt.Errorf("%w: QEMU: the machine's state: %s", atoll.ErrUnavailable, how)
		}
		return nil
	case <-c.done:
		return fmt.Errorf("%w: QEMU: the machine's state: %w", atoll.ErrUnavailable, c.ended())
	case <-ctx.Done():
		return fmt.Errorf("%w: QEMU: the machine's state: %w", atoll.ErrUnavailable, context.Cause(ctx))
	}
}

var errNoQEMU = errors.New("QEMU is missing: install qemu-system-x86 (Debian, Ubuntu), qemu-kvm (Fedora, RHEL) or qemu-system-x86_64 (others), or name it in the configuration")
