package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// check reports everything in a valid spec that this cluster does not support.
func (d *Driver) check(ctx context.Context, t *target, how Placement, spec *atoll.Spec) error {
	var errs []error
	no := func(what, format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %w by pods: %s", what, atoll.ErrUnsupported, fmt.Sprintf(format, a...)))
	}
	if spec.VM != nil {
		no("machine", "a pod is not a VM")
	}
	if len(spec.Mounts) > 0 {
		no("mounts", "the cluster has no directories of this host; copy files in, or use a workspace, which is copied")
	}
	d.checkLimits(how, spec, no)
	d.checkUser(spec, no)
	checkNames(how, spec.Env, no)
	if modes := d.featuresOf(how).Networks; !slices.Contains(modes, networkMode(spec)) {
		no("network mode "+string(networkMode(spec)), "there are %v", modes)
	}
	if rules := spec.Network; len(rules.Allow)+len(rules.Deny)+len(rules.Headers) > 0 || rules.Inspect || rules.Rate > 0 || rules.Bytes > 0 {
		if !d.featuresOf(how).Egress {
			no("network rules", "they need a guest in the pod, and atoll-egress on this host, which has to run Linux; otherwise only the mode applies")
		} else if networkMode(spec) != atoll.NetworkNone {
			no("network rules with mode "+string(networkMode(spec)), "its connections don't pass the egress proxy; use mode none and allow what is needed")
		} else {
			errs = append(errs, checkRules(&rules))
		}
	}
	errs = append(errs, d.checkStorage(ctx, t, spec), t.checkRuntime(ctx, spec.Runtime))
	return errors.Join(errs...)
}

// checkLimits reports limits that a cluster can't enforce. Ending a pod that exceeds them is not
// enforcement, since all its processes end.
func (d *Driver) checkLimits(how Placement, spec *atoll.Spec, no func(what, format string, a ...any)) {
	if spec.Limits.PIDs > 0 && (how == PlaceNone || !d.hasOwnUser(spec)) {
		no("limits.pids", "it needs a guest, and a user of the sandbox's own: leave user out")
	}
	if spec.Limits.Files > 0 {
		no("limits.files", "nothing counts them")
	}
	if spec.Limits.FileSize > 0 {
		no("limits.file_size", "a pod can't set it")
	}
	if spec.Limits.Disk > 0 && d.storageOf(spec) != storageMemory {
		no("limits.disk", "a kubelet ends pods that pass it, with all that runs in them; storage_class %q has a hard limit, and a volume has the size of requests.disk", storageMemory)
	}
}

// checkUser reports users that a pod can't have.
func (d *Driver) checkUser(spec *atoll.Spec, no func(what, format string, a ...any)) {
	if spec.User == "" {
		return
	}
	uid, gid, named := userOf(spec)
	switch {
	case !named:
		no("user "+spec.User, "users of pods must be numbers, like 1000 or 1000:1000")
	case (uid == 0 || gid == 0) && !d.Privileged:
		no("user "+spec.User, "sandboxes satisfy Pod Security's \"restricted\", which has no root, unless the driver is set to be privileged")
	}
}

// checkNames reports variables that are dropped by the shell with which a pod starts that has no guest
// yet.
func checkNames(how Placement, env []string, no func(what, format string, a ...any)) {
	if how != PlaceNone && how != PlaceCopy {
		return
	}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" || name[0] >= '0' && name[0] <= '9' {
			no("env "+name, "the shell that starts a pod without a guest image accepts only names of letters, digits and '_'")
		}
	}
}

// checkStorage reports a missing storage class, and a working directory that can't be a volume.
func (d *Driver) checkStorage(ctx context.Context, t *target, spec *atoll.Spec) error {
	class := d.storageOf(spec)
	if !outlivesPod(class) {
		return nil
	}
	if dir := orDefault(spec.Dir, atoll.DefaultDir); isImageDir(dir) {
		return fmt.Errorf("dir %s: %w: it is the image's, and no volume can be there; choose another, or storage_class %q", path.Clean(dir), atoll.ErrInvalid, storageNone)
	}
	names, usual, err := t.storageClasses(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("storage classes: %w", err)
	case names == nil: // listing is not allowed; creating the volume will show it
		return nil
	case class == storageDefault && usual == "":
		return fmt.Errorf("storage_class %q: %w: the cluster has no default class; it has %s", class, atoll.ErrUnsupported, wordsOf(names))
	case class != storageDefault && !slices.Contains(names, class):
		return fmt.Errorf("storage_class %q: %w by this cluster: it has %s, besides \"default\", \"none\" and \"memory\"", class, atoll.ErrUnsupported, wordsOf(names))
	}
	return nil
}

func wordsOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// runtimeClass returns a RuntimeClass; nil if reading it is not allowed.
func (t *target) runtimeClass(ctx context.Context, name string) (found *nodev1.RuntimeClass, err error) {
	err = t.callAPI(ctx, func(ctx context.Context) error {
		found, err = t.node.RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return found, err
}

// runtimeClasses returns the names of the cluster's RuntimeClasses; nil if listing them is not
// allowed.
func (t *target) runtimeClasses(ctx context.Context) ([]string, error) {
	var names []string
	err := t.callAPI(ctx, func(ctx context.Context) error {
		list, err := t.node.RuntimeClasses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names = nil
		for _, c := range list.Items {
			names = append(names, c.Name)
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// checkRuntime reports a missing RuntimeClass together with the existing ones.
func (t *target) checkRuntime(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	_, err := t.runtimeClass(ctx, name)
	if !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	names, err := t.runtimeClasses(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("runtime %q: %w by this cluster: its RuntimeClasses are %s", name, atoll.ErrUnsupported, wordsOf(names))
}

// isolationOf returns the name of the isolation of a RuntimeClass, from the handler names that gVisor
// and Kata use.
func (t *target) isolationOf(ctx context.Context, name string) (string, error) {
	if name == "" {
		return isolation, nil
	}
	class, err := t.runtimeClass(ctx, name)
	if err != nil || class == nil {
		return isolation, err
	}
	switch {
	case strings.HasPrefix(class.Handler, "runsc") || strings.HasPrefix(class.Handler, "gvisor"):
		return "emulated", nil
	case strings.HasPrefix(class.Handler, "kata"):
		return "machine", nil
	}
	return isolation, nil
}
