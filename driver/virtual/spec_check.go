package virtual

import (
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// check reports what is wrong with a spec, and what this driver does not support.
func check(spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the virtual driver: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Image != "" {
		no("image "+spec.Image, "its programs are built in; --driver namespace, docker, microvm or kubernetes runs those of images")
	}
	if spec.Runtime != "" && spec.Runtime != Sealed {
		no("runtime "+spec.Runtime, "it has only "+Sealed+", besides its own")
	}
	if spec.User != "" && spec.User != "root" {
		no("user "+spec.User, "there is only root, of the sandbox alone")
	}
	if len(spec.Mounts) > 0 && !vfs.HostMounts() {
		no("mounts", "they need Linux or macOS")
	}
	if spec.VM != nil {
		no("machine", "it is a process, not a VM")
	}
	if spec.Pod != nil {
		no("pod", "it does not run in a cluster")
	}
	if spec.Limits.CPU > 0 {
		no("limits.cpu", "a command has one goroutine for each of its processes; bound its time instead")
	}
	return errors.Join(errs...)
}
