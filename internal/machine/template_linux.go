package machine

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

// Names in the directory of a template.
const (
	memoryFile = "memory"
	saveFile   = "state"
	noteFile   = "template.json" // a note; it is written last
)

// shape is what a template and its clones have in common.
type shape struct {
	QEMU   string   `json:"qemu"` // path, size and time
	Accel  string   `json:"accel"`
	Type   string   `json:"type"`
	Memory int64    `json:"memory"`
	CPUs   int      `json:"cpus"`
	Kernel string   `json:"kernel"` // path, size and time: what was booted
	Initrd string   `json:"initrd"`
	Append string   `json:"append"` // all parameters of the kernel but the clock's
	Disks  []string `json:"disks"`  // how each can be written
	Args   []string `json:"args"`
	Form   []byte   `json:"form,omitempty"` // a hash of it, and of what its disks are for
}

// Savable reports why a machine can't be saved as a template.
func (c *Config) Savable() error {
	if len(c.Shares)+len(c.NICs) > 0 {
		return fmt.Errorf("%w: a machine with shares or network interfaces can't be saved as a template", atoll.ErrUnsupported)
	}
	return nil
}

// shapeOf returns what must be the same in a template and its clones.
func (o *order) shapeOf() (*shape, error) {
	s := &shape{Accel: o.Accel, Type: o.Type, Memory: o.Memory, CPUs: o.CPUs, Append: shared(o), Args: o.Args}
	for _, f := range []struct {
		path string
		into *string
	}{{o.Kernel, &s.Kernel}, {o.Initrd, &s.Initrd}, {o.QEMU, &s.QEMU}} {
		if f.path == "" {
			continue
		}
		stamp, err := stampOf(f.path)
		if err != nil {
			return nil, err
		}
		*f.into = stamp
	}
	if len(o.Form) > 0 {
		sum := sha256.Sum256(append([]byte(o.For+"\x00"), o.Form...))
		s.Form = sum[:]
	}
	for _, d := range o.Disks {
		kind := "rw"
		if d.ReadOnly {
			kind = "ro"
		}
		for _, b := range d.Backing {
			if s.Form == nil {
				break // nothing of it is in memory
			}
			stamp, err := stampOf(b.File)
			if err != nil {
				return nil, err
			}
			kind += " " + stamp
		}
		s.Disks = append(s.Disks, kind)
	}
	return s, nil
}

// stampOf names a file as it is now.
func stampOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()), nil
}

// shared are the parameters that a machine of another start would get too.
func shared(o *order) string {
	still := *o
	still.TSC = 0
	return parameters(&still)
}

// Key names all that shapes a machine: those with the same key can be clones of
// one template. It is 32 hexadecimal digits.
func (c *Config) Key() (string, error) {
	o := &order{Config: *c}
	if err := o.check(); err != nil {
		return "", err
	}
	if err := o.prepare(); err != nil {
		return "", err
	}
	s, err := o.shapeOf()
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

// SaveTemplate boots a machine until its guest waits to be told to go on, saves
// it into a directory that isn't there yet, and ends it. The directory appears
// in one step. Without a Form, disks are only opened: their content is not part of
// the template. With one it is, and their files are moved into the directory, under
// their own names.
func SaveTemplate(ctx context.Context, c *Config, dir string) (err error) {
	if err := c.Savable(); err != nil {
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
	s, err := launch(ctx, c, tmp)
	if err != nil {
		return err
	}
	s.end() // it has ended its machine already
	if err := seal(ctx, c, tmp, memory); err != nil {
		return err
	}
	for _, d := range c.Disks {
		if len(c.Form) == 0 {
			break
		}
		if err := os.Rename(d.File, filepath.Join(tmp, filepath.Base(d.File))); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

// seal makes a saved memory one that no hypervisor can change any more, and
// notes what it is the memory of, which is what makes it a template.
func seal(ctx context.Context, c *Config, dir string, memory *os.File) (err error) {
	if os.Geteuid() == 0 {
		if err = memory.Chown(0, 0); err != nil {
			return err
		}
	}
	if err = errors.Join(memory.Chmod(0o444), memory.Sync()); err != nil {
		return err
	}
	o := &order{Config: *c}
	if err := errors.Join(o.check(), o.prepare()); err != nil {
		return err
	}
	var n note
	if n.Version, err = Version(ctx, o.QEMU); err != nil {
		return err
	}
	if n.Key, err = o.Key(); err != nil {
		return err
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, noteFile), b)
}

// note tells what a template is one of.
type note struct {
	Key     string `json:"key"`     // Config.Key
	Version string `json:"version"` // of the hypervisor
}

// checkTemplate reports a template that this machine is no clone of.
func (o *order) checkTemplate() error {
	b, err := os.ReadFile(filepath.Join(o.Template, noteFile))
	var n note
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return fmt.Errorf("%w: the template: %w", atoll.ErrUnavailable, err)
	}
	key, err := o.Key()
	if err != nil {
		return err
	}
	if n.Key != key {
		return fmt.Errorf("%w: the template %s is that of another machine: QEMU, kernel, memory, processors, number of disks or arguments differ", atoll.ErrInvalid, o.Template)
	}
	o.Version = n.Version
	return nil
}

// openState opens the file that a machine's state is saved to or woken from.
func (m *monitor) openState() (err error) {
	switch {
	case m.o.Save != "":
		m.state, err = os.OpenFile(filepath.Join(m.o.Save, saveFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	case m.o.Template != "":
		m.state, err = os.Open(filepath.Join(m.o.Template, saveFile))
	}
	return err
}

// wake loads the template's state into the hypervisor, and lets it run.
func (m *monitor) wake(ctx context.Context) error {
	defer m.state.Close()
	return m.ctl.load(ctx, m.state)
}

// save saves the machine, which waits to be told to go on; it is over then.
func (m *monitor) save(ctx context.Context) error {
	defer m.state.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, m.o.Patience, errSilent)
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
	return &End{Reason: ByOrder, Message: "it is saved"}
}
