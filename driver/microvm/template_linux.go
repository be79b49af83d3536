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

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// templateDir is the directory of templates: VMs that were saved when they had booted. Each is a
// directory, named by the hash of all that shapes it, and a lock file.
const templateDir = "templates"

// maxTemplates is how many templates are kept; the ones that were not used longest are removed.
const maxTemplates = 8

// startVM starts a VM as a copy of a template, which is made if there is none; if that is not
// possible, it boots the VM. A VM with new disks is a copy of one that has mounted such disks.
func (d *Driver) startVM(ctx context.Context, r *record, c *hypervisor.Config, tell setupFunc) error {
	if r.TemplateWhy = d.whyNoTemplate(c); r.TemplateWhy != "" {
		return startHypervisor(ctx, c, tell, setupAll)
	}
	if r.newDisks {
		done, err := d.startFromTemplate(ctx, r, c, tell, true)
		if done || ctx.Err() != nil {
			return err
		}
		r.TemplateWhy = err.Error()
		if err := d.recreateDisks(ctx, r); err != nil {
			return err
		}
	}
	done, err := d.startFromTemplate(ctx, r, c, tell, false)
	if done || ctx.Err() != nil {
		return err
	}
	r.TemplateWhy = err.Error()
	return startHypervisor(ctx, c, tell, setupAll)
}

// startFromTemplate starts a VM as a copy of a template, with formed also with copies of the
// template's disks. done means that the VM has started, or that the error is not the template's
// fault.
func (d *Driver) startFromTemplate(ctx context.Context, r *record, like *hypervisor.Config, tell setupFunc, formed bool) (done bool, err error) {
	c, say := *like, setupAll
	if formed {
		say = setupOwn
		if c.TemplateSetup, err = tell(setupCommon); err != nil {
			return true, err
		}
		c.DiskKey = strconv.FormatInt(r.DiskSize, 10)
	}
	dir, err := d.ensureTemplate(ctx, r, &c)
	if err != nil {
		return false, err
	}
	c.Template = dir
	if formed {
		err = d.copyTemplateDisks(ctx, r, dir)
	}
	if err == nil {
		if err = startHypervisor(ctx, &c, tell, say); err == nil {
			r.fromTemplate = formed
			return true, nil
		}
	}
	if end, eerr := hypervisor.LastEnd(c.Dir); eerr == nil && end != nil && end.Reason == hypervisor.BySetup {
		return true, err // it has started, and its setup failed
	}
	return false, errors.Join(err, d.dropTemplate(dir))
}

// copyTemplateDisks gives a sandbox copies of the disks of a template.
func (d *Driver) copyTemplateDisks(ctx context.Context, r *record, template string) error {
	dir := d.sandboxDir(r.ID)
	root, work := filepath.Join(dir, rootFile), filepath.Join(dir, workFile)
	if err := errors.Join(os.Remove(root), os.Remove(work)); err != nil {
		return err
	}
	return copyDisks(ctx, root, filepath.Join(template, rootFile), work, filepath.Join(template, workFile))
}

// whyNoTemplate returns why a VM must boot; empty: it need not.
func (d *Driver) whyNoTemplate(c *hypervisor.Config) string {
	switch {
	case d.NoTemplates:
		return "templates are switched off"
	case len(c.Shares) > 0:
		return "a VM with mounts can't be saved"
	case len(c.NICs) > 0:
		return "a VM with a network interface can't be saved"
	}
	return ""
}

// ensureTemplate returns the directory of a template for VMs like c, which is made if there is none.
func (d *Driver) ensureTemplate(ctx context.Context, r *record, c *hypervisor.Config) (string, error) {
	key, err := c.TemplateKey()
	if err != nil {
		return "", err
	}
	home := filepath.Join(d.Dir, templateDir)
	dir := filepath.Join(home, key)
	if touchTemplate(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	unlock, err := filelock.Acquire(ctx, dir+".lock", filelock.Exclusive)
	if err != nil {
		return "", err
	}
	defer unlock()
	if touchTemplate(dir) { // another process has made it meanwhile
		return dir, nil
	}
	progressFunc(r.Spec.Progress)(atoll.Progress{ID: "template", Message: fmt.Sprintf("booting a VM with %d MiB and %d processors, as the template of others", c.Memory>>20, c.CPUs)})
	if err := pruneTemplates(home, maxTemplates-1); err != nil {
		return "", err
	}
	if err := hypervisor.SaveTemplate(ctx, c, dir); err != nil {
		return "", err
	}
	if len(c.TemplateSetup) == 0 {
		return dir, nil
	}
	return dir, d.recreateDisks(ctx, r) // the template has the disks of before
}

// touchTemplate reports whether a template exists, and notes that it is used.
func touchTemplate(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// dropTemplate removes a template from which no VM can start. VMs that did continue.
func (d *Driver) dropTemplate(dir string) error { return os.RemoveAll(dir) }

// pruneTemplates removes the templates that were not used longest, except for some.
func pruneTemplates(home string, most int) error {
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

// PrepareTemplate makes the template of VMs with some limits, if there is none, so that the first of them need
// not boot.
func (d *Driver) PrepareTemplate(ctx context.Context, spec atoll.Spec) error {
	sb, err := d.Create(ctx, spec)
	if err != nil {
		return err
	}
	return sb.Destroy(ctx)
}
