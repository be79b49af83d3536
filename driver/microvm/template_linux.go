package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// templateDir holds machines that were saved when they had booted: each a
// directory named by all that shapes one, and a file that who makes it locks.
const templateDir = "templates"

// mostTemplates is how many are kept; those that were last used go first.
const mostTemplates = 8

// clone starts a machine as a copy of one that has booted, which is made if there
// is none; where that is not possible, it boots. One whose disks hold nothing yet is
// a copy of one that has mounted such disks.
func (d *Driver) clone(ctx context.Context, r *record, c *machine.Config, tell setup) error {
	if r.TemplateWhy = d.untemplated(c); r.TemplateWhy != "" {
		return run(ctx, c, tell, whole)
	}
	if r.untouched {
		done, err := d.wake(ctx, r, c, tell, true)
		if done || ctx.Err() != nil {
			return err
		}
		r.TemplateWhy = err.Error()
		if err := d.emptyDisks(ctx, r); err != nil {
			return err
		}
	}
	done, err := d.wake(ctx, r, c, tell, false)
	if done || ctx.Err() != nil {
		return err
	}
	r.TemplateWhy = err.Error()
	return run(ctx, c, tell, whole)
}

// wake starts a machine as a copy, with disks of its template's if formed. done: the
// error is not the template's fault, or there is none.
func (d *Driver) wake(ctx context.Context, r *record, like *machine.Config, tell setup, formed bool) (done bool, err error) {
	c, say := *like, whole
	if formed {
		say = own
		if c.Form, err = tell(common); err != nil {
			return true, err
		}
		c.For = strconv.FormatInt(r.DiskSize, 10)
	}
	dir, err := d.template(ctx, r, &c)
	if err != nil {
		return false, err
	}
	c.Template = dir
	if formed {
		err = d.takeDisks(ctx, r, dir)
	}
	if err == nil {
		if err = run(ctx, &c, tell, say); err == nil {
			r.woken = formed
			return true, nil
		}
	}
	if end, eerr := machine.Ended(c.Dir); eerr == nil && end != nil && end.Reason == machine.BySetup {
		return true, err // it has woken, and is none the less of no use
	}
	return false, errors.Join(err, d.dropTemplate(dir))
}

// takeDisks gives a sandbox copies of the disks of a template.
func (d *Driver) takeDisks(ctx context.Context, r *record, template string) error {
	dir := d.dir(r.ID)
	root, work := filepath.Join(dir, rootFile), filepath.Join(dir, workFile)
	if err := errors.Join(os.Remove(root), os.Remove(work)); err != nil {
		return err
	}
	return copyDisks(ctx, root, filepath.Join(template, rootFile), work, filepath.Join(template, workFile))
}

// untemplated says why a machine must boot; empty: it need not.
func (d *Driver) untemplated(c *machine.Config) string {
	switch {
	case d.NoTemplates:
		return "templates are switched off"
	case len(c.Shares) > 0:
		return "a machine with mounts can't be saved"
	case len(c.NICs) > 0:
		return "a machine with a network interface can't be saved"
	}
	return ""
}

// template returns the directory of a saved machine like that of c, which is made
// if it is not there.
func (d *Driver) template(ctx context.Context, r *record, c *machine.Config) (string, error) {
	key, err := c.Key()
	if err != nil {
		return "", err
	}
	home := filepath.Join(d.Dir, templateDir)
	dir := filepath.Join(home, key)
	if usable(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	held, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer held.Close()
	if usable(dir) { // another has made it meanwhile
		return dir, nil
	}
	told(r.Spec.Progress)(atoll.Progress{ID: "template", Message: fmt.Sprintf("booting a machine with %d MiB and %d processors, to be copied from now on", c.Memory>>20, c.CPUs)})
	if err := prune(home, mostTemplates-1); err != nil {
		return "", err
	}
	if len(c.Form) == 0 {
		return dir, machine.SaveTemplate(ctx, c, dir)
	}
	if err := machine.SaveTemplate(ctx, c, dir); err != nil {
		return "", err
	}
	return dir, d.emptyDisks(ctx, r) // the template has those that there were
}

// usable tells whether a template is there, and notes that it is used.
func usable(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// dropTemplate removes one that can't be woken. Machines that were go on.
func (d *Driver) dropTemplate(dir string) error { return os.RemoveAll(dir) }

// prune removes the templates that were last used, but for some.
func prune(home string, most int) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	type used struct {
		dir  string
		when time.Time
	}
	var list []used
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() {
			list = append(list, used{filepath.Join(home, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b used) int { return b.when.Compare(a.when) })
	for i := most; i < len(list); i++ {
		err = errors.Join(err, os.RemoveAll(list[i].dir))
	}
	return err
}

// lockFile takes the lock of a file, which is made if it is not there.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-got:
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
		}
		return f, nil
	case <-ctx.Done():
		go func() { // it can't be called back
			<-got
			_ = f.Close() // nobody waits for it
		}()
		return nil, context.Cause(ctx)
	}
}

// Warm makes the template of machines with some limits, if there is none, so that
// the first of them need not boot.
func (d *Driver) Warm(ctx context.Context, spec atoll.Spec) error {
	sb, err := d.Create(ctx, spec)
	if err != nil {
		return err
	}
	return sb.Destroy(ctx)
}
