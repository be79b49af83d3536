package hypervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// Files in the directory of a template.
const (
	memoryFile = "memory"
	saveFile   = "state"
	noteFile   = "template.json" // a templateNote; written last
)

// shape is the part of a configuration that a template and its clones have in common.
type shape struct {
	QEMU   string   `json:"qemu"` // path, size and time
	Accel  string   `json:"accel"`
	Type   string   `json:"type"`
	Memory int64    `json:"memory"`
	CPUs   int      `json:"cpus"`
	Kernel string   `json:"kernel"` // path, size and time of the booted kernel
	Initrd string   `json:"initrd"`
	Append string   `json:"append"` // all kernel parameters except the clock's
	Disks  []string `json:"disks"`  // whether each can be written, and its backing files
	Args   []string `json:"args"`
	Flat   bool     `json:"flat,omitempty"` // NoNested
	Form   []byte   `json:"form,omitempty"` // hash of the form, and of what its disks are for
}

// CheckSavable returns an error if the VM can't be saved as a template.
func (c *Config) CheckSavable() error {
	if len(c.Shares)+len(c.NICs) > 0 {
		return fmt.Errorf("%w: a VM with shares or network interfaces can't be saved as a template", atoll.ErrUnsupported)
	}
	return nil
}

// computeShape returns the shape of the VM.
func (o *monitorOrder) computeShape() (*shape, error) {
	s := &shape{Accel: o.Accel, Type: o.Type, Memory: o.Memory, CPUs: o.CPUs, Append: sharedParameters(o), Args: o.Args, Flat: o.NoNested}
	for _, f := range []struct {
		path string
		into *string
	}{{o.Kernel, &s.Kernel}, {o.Initrd, &s.Initrd}, {o.QEMU, &s.QEMU}} {
		if f.path == "" {
			continue
		}
		stamp, err := fileStamp(f.path)
		if err != nil {
			return nil, err
		}
		*f.into = stamp
	}
	if len(o.TemplateSetup) > 0 {
		sum := sha256.Sum256(append([]byte(o.DiskKey+"\x00"), o.TemplateSetup...))
		s.Form = sum[:]
	}
	for _, d := range o.Disks {
		kind := "rw"
		if d.ReadOnly {
			kind = "ro"
		}
		for _, b := range d.Backing {
			if s.Form == nil {
				break // their content is not in memory
			}
			stamp, err := fileStamp(b.File)
			if err != nil {
				return nil, err
			}
			kind += " " + stamp
		}
		s.Disks = append(s.Disks, kind)
	}
	return s, nil
}

// fileStamp identifies a version of a file by its path, size and time.
func fileStamp(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), nil
}

// sharedParameters returns the kernel parameters that do not depend on the time of the start.
func sharedParameters(o *monitorOrder) string {
	still := *o
	still.TSC = 0
	return kernelParameters(&still)
}

// TemplateKey returns a hash of the shape, in 32 hexadecimal digits: VMs with the same key can be clones of
// one template.
func (c *Config) TemplateKey() (string, error) {
	o := &monitorOrder{Config: *c}
	if err := o.check(); err != nil {
		return "", err
	}
	if err := o.resolveQEMU(); err != nil {
		return "", err
	}
	s, err := o.computeShape()
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// SaveTemplate boots a VM until its guest waits to continue, saves it into a new directory, and
// ends it. The directory appears in one step. Without a Form, disks are only opened: their content
// is not part of the template. With a Form it is, and their files are moved into the directory
// under their own names.
func SaveTemplate(ctx context.Context, c *Config, dir string) (err error) {
	if err := c.CheckSavable(); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w: template %s", atoll.ErrExists, dir), err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.RemoveAll(tmp); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	memory, err := os.OpenFile(filepath.Join(tmp, memoryFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer memory.Close()
	if err := memory.Truncate(c.Memory); err != nil {
		return err
	}
	if c.User != nil && os.Geteuid() == 0 {
		if err := memory.Chown(c.User.UID, c.User.GID); err != nil {
			return err
		}
	}
	s, err := bootMonitor(ctx, c, tmp, func() error {
		err := os.Remove(filepath.Join(tmp, saveFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, memory.Truncate(0), memory.Truncate(c.Memory))
	})
	if err != nil {
		return err
	}
	s.stopMonitor() // the monitor has ended the VM already
	if err := sealTemplate(ctx, c, tmp, memory); err != nil {
		return err
	}
	for _, d := range c.Disks {
		if len(c.TemplateSetup) == 0 {
			break
		}
		if err := os.Rename(d.File, filepath.Join(tmp, filepath.Base(d.File))); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

// sealTemplate makes the saved memory read-only for hypervisors, and writes the note that completes
// the template.
func sealTemplate(ctx context.Context, c *Config, dir string, memory *os.File) (err error) {
	if os.Geteuid() == 0 {
		if err = memory.Chown(0, 0); err != nil {
			return err
		}
	}
	if err = errors.Join(memory.Chmod(0o444), memory.Sync()); err != nil {
		return err
	}
	o := &monitorOrder{Config: *c}
	if err := errors.Join(o.check(), o.resolveQEMU()); err != nil {
		return err
	}
	var n templateNote
	if n.Version, err = Version(ctx, o.QEMU); err != nil {
		return err
	}
	if n.Key, err = o.TemplateKey(); err != nil {
		return err
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, noteFile), b)
}

// templateNote describes a template.
type templateNote struct {
	Key     string `json:"key"`     // result of Config.TemplateKey
	Version string `json:"version"` // of the hypervisor
}

// checkTemplate returns an error if this VM can't be a clone of its template.
func (o *monitorOrder) checkTemplate() error {
	b, err := os.ReadFile(filepath.Join(o.Template, noteFile))
	var n templateNote
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return fmt.Errorf("%w: the template: %w", atoll.ErrUnavailable, err)
	}
	key, err := o.TemplateKey()
	if err != nil {
		return err
	}
	if n.Key != key {
		return fmt.Errorf("%w: the template %s is that of another VM: QEMU, kernel, memory, processors, number of disks or arguments differ", atoll.ErrInvalid, o.Template)
	}
	o.Version = n.Version
	return nil
}

// openState opens the file that the VM's state is saved to or loaded from.
func (m *monitor) openState() (err error) {
	switch {
	case m.o.Save != "":
		m.state, err = os.OpenFile(filepath.Join(m.o.Save, saveFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	case m.o.Template != "":
		m.state, err = os.Open(filepath.Join(m.o.Template, saveFile))
	}
	return err
}

// loadTemplate loads the template's state into the hypervisor, which then runs the VM.
func (m *monitor) loadTemplate(ctx context.Context) error {
	defer m.state.Close()
	return m.ctl.load(ctx, m.state)
}

// saveState saves the VM, whose guest waits to continue. The result is always an error that ends
// the VM.
func (m *monitor) saveState(ctx context.Context) error {
	defer m.state.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, m.o.StartTimeout, errSilent)
	defer cancel()
	if err := m.ctl.pause(ctx); err != nil {
		return err
	}
	if err := m.ctl.save(ctx, m.state); err != nil {
		return err
	}
	if err := m.state.Sync(); err != nil {
		return err
	}
	return &End{Reason: ByOrder, Message: "it was saved"}
}
