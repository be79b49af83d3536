package kubernetes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Where the guest is in a pod whose image has none.
const (
	guestDir    = "/run/atoll"
	guestFile   = guestDir + "/atoll-guest"
	guestVolume = "atoll-guest"
)

// directPort is where a guest is reached at its pod's address.
const directPort = 41999

// oldestVolume is the minor version of Kubernetes 1 from which on images are
// volumes.
const oldestVolume = 35

// places is what is known of the ways into a target's pods.
type places struct {
	mu      sync.Mutex
	minor   int  // guarded by mu, as all below; of the cluster, 0: not asked
	without bool // its nodes don't have volumes of images

	plain  bool      // WebSockets don't come through
	missed time.Time // when a pod was last not reached at its address
	why    error     // and why
}

// placement decides how the guest gets into a pod of a target.
func (d *Driver) placement(ctx context.Context, t *target) (Placement, error) {
	switch how := d.Placement; how {
	case PlaceAuto:
	case PlaceVolume, PlaceInit:
		if d.GuestImage == "" {
			return "", fmt.Errorf("%w: placement %q needs a guest image", atoll.ErrInvalid, how)
		}
		return how, nil
	case PlaceImage, PlaceCopy, PlaceNone:
		return how, nil
	default:
		return "", fmt.Errorf("%w: placement %q: must be image, volume, init, copy or none", atoll.ErrInvalid, how)
	}
	if d.GuestImage == "" {
		if _, err := d.Helpers.Find("atoll-guest"); err != nil {
			return PlaceNone, nil //nolint:nilerr // there is nothing to send
		}
		return PlaceCopy, nil
	}
	has, err := t.hasVolumes(ctx)
	if err != nil {
		return "", err
	}
	if has {
		return PlaceVolume, nil
	}
	return PlaceInit, nil
}

// hasVolumes reports whether images can be volumes, as far as is known. It asks
// the cluster once.
func (t *target) hasVolumes(ctx context.Context) (bool, error) {
	t.places.mu.Lock()
	minor, without := t.places.minor, t.places.without
	t.places.mu.Unlock()
	if without {
		return false, nil
	}
	if minor == 0 {
		text, err := t.core.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return false, explain(err)
		}
		var v struct{ Minor string }
		if err := json.Unmarshal(text, &v); err != nil {
			return false, fmt.Errorf("the cluster's version: %w", err)
		}
		if minor, err = strconv.Atoi(strings.TrimRight(v.Minor, "+")); err != nil {
			return false, fmt.Errorf("the cluster's version: %w", err)
		}
		t.places.mu.Lock()
		t.places.minor = minor
		t.places.mu.Unlock()
	}
	return minor >= oldestVolume, nil
}

// instead returns what to try after a pod whose guest was placed like that has
// not started, "" for nothing: a cluster may be newer than its nodes' runtime.
func (d *Driver) instead(t *target, how Placement) Placement {
	if d.Placement != PlaceAuto || how != PlaceVolume {
		return ""
	}
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	if t.places.without {
		return PlaceInit // another has found out
	}
	t.places.without = true
	return PlaceInit
}

// apply makes a pod's first container begin with the guest of a sandbox: its
// command, environment, volumes, init containers. The rest of the pod is there.
func (d *Driver) apply(how Placement, id string, n atoll.Network, spec *corev1.PodSpec) error {
	if how == PlaceNone {
		return nil
	}
	program := d.GuestPath
	if program == "" {
		program = "/atoll-guest"
	}
	c := &spec.Containers[0]
	mount := corev1.VolumeMount{Name: guestVolume, MountPath: guestDir, ReadOnly: true}
	switch how {
	case PlaceImage:
		c.Command = []string{program, "pod"}
	case PlaceVolume:
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: guestVolume, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: d.GuestImage, PullPolicy: corev1.PullIfNotPresent},
		}})
		c.VolumeMounts = append(c.VolumeMounts, mount)
		c.Command = []string{path.Join(guestDir, program), "pod"}
	case PlaceInit:
		spec.Volumes = append(spec.Volumes, memoryVolume())
		c.VolumeMounts = append(c.VolumeMounts, mount)
		c.Command = []string{guestFile, "pod"}
		first := corev1.Container{
			Name: "guest", Image: d.GuestImage, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{program, "copy", guestDir},
			SecurityContext: c.SecurityContext.DeepCopy(), Resources: *c.Resources.DeepCopy(), // no more than the pod has anyway
		}
		mount.ReadOnly = false
		first.VolumeMounts = []corev1.VolumeMount{mount}
		spec.InitContainers = append(spec.InitContainers, first)
	case PlaceCopy:
		spec.Volumes = append(spec.Volumes, memoryVolume())
		mount.ReadOnly = false
		c.VolumeMounts = append(c.VolumeMounts, mount)
		c.Command = []string{"/bin/sh", "-c", awaitGuest, guestFile}
		if spec.NodeSelector == nil {
			spec.NodeSelector = make(map[string]string)
		}
		spec.NodeSelector[corev1.LabelArchStable] = runtime.GOARCH // that of what is sent
	}
	c.Args = nil
	config := guest.Config{Switch: d.Privileged, Gate: true}
	if gated(&n) {
		config.Env = gate.Env(n)
	}
	env, err := d.guestEnv(id, &config, c.Env)
	c.Env = append(c.Env, env...)
	return err
}

// memoryVolume is where a copy of the guest is.
func memoryVolume() corev1.Volume {
	size := resource.MustParse("32Mi")
	return corev1.Volume{Name: guestVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
	}}
}

// guestEnv is what the guest is told, besides the sandbox's own variables. None
// of it is secret.
func (d *Driver) guestEnv(id string, config *guest.Config, own []corev1.EnvVar) ([]corev1.EnvVar, error) {
	key, err := d.key()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(own))
	for _, e := range own {
		names = append(names, e.Name)
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is its
	env := []corev1.EnvVar{
		{Name: "ATOLL_GUEST", Value: string(text)},
		{Name: "ATOLL_ID", Value: id},
		{Name: "ATOLL_KEY", Value: base64.StdEncoding.EncodeToString(public)},
		{Name: "ATOLL_OWN", Value: string(list)},
	}
	if d.Direct {
		env = append(env, corev1.EnvVar{Name: "ATOLL_DIRECT", Value: ":" + strconv.Itoa(directPort)})
	}
	return env, nil
}

// awaitGuest waits until the program that it is given is there, and becomes it;
// takeGuest puts it there, in one step, if all of it came.
const (
	awaitGuest = `until test -x "$0"; do sleep 0.02 2>/dev/null || sleep 1; done; exec "$0" pod`
	takeGuest  = `cat >"$0.new" && test "$(wc -c <"$0.new")" -eq "$1" && chmod 755 "$0.new" && mv "$0.new" "$0"`
)

// send puts the guest into a pod that waits for it (PlaceCopy).
func (p *pod) send(ctx context.Context) error {
	program, err := p.d.Helpers.Find("atoll-guest")
	if err != nil {
		return err
	}
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var words bytes.Buffer
	code, err := p.t.run(ctx, &call{
		pod: p.podName(), container: p.inside(), in: f, err: &words,
		args: []string{"/bin/sh", "-c", takeGuest, guestFile, strconv.FormatInt(info.Size(), 10)},
	})
	if err != nil {
		return fmt.Errorf("sending the guest: %w", err)
	}
	if code != 0 {
		return fmt.Errorf("%w: sending the guest: the pod's shell ended with %d: %s", atoll.ErrUnavailable, code, oneLine(words.String()))
	}
	return nil
}

// oneLine makes a text a line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
