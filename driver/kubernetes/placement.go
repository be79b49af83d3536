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
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Paths of the guest in a pod whose image has none.
const (
	guestDir    = "/run/atoll"
	guestFile   = guestDir + "/atoll-guest"
	guestVolume = "atoll-guest"
)

// oldestVolume is the first minor version of Kubernetes 1 that can mount images as volumes.
const oldestVolume = 35

// access is what is known about how to reach a target's pods.
type access struct {
	mu             sync.Mutex
	minor          int  // guarded by mu, as all below; of the cluster's version, 0: not read yet
	noImageVolumes bool // its nodes don't support image volumes

	spdyOnly     bool      // WebSockets do not work
	unreachedAt  time.Time // when connecting to a pod's address last failed
	unreachedErr error     // its error
}

// choosePlacement returns how the guest gets into the pods of a target.
func (d *Driver) choosePlacement(ctx context.Context, t *target) (Placement, error) {
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
			return PlaceNone, nil //nolint:nilerr // there is no guest to send
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

// hasVolumes reports whether images can be volumes, as far as is known. It asks the cluster once.
func (t *target) hasVolumes(ctx context.Context) (bool, error) {
	t.access.mu.Lock()
	minor, without := t.access.minor, t.access.noImageVolumes
	t.access.mu.Unlock()
	if without {
		return false, nil
	}
	if minor == 0 {
		text, err := t.core.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return false, markError(err)
		}
		var v struct{ Minor string }
		if err := json.Unmarshal(text, &v); err != nil {
			return false, fmt.Errorf("the cluster's version: %w", err)
		}
		if minor, err = strconv.Atoi(strings.TrimRight(v.Minor, "+")); err != nil {
			return false, fmt.Errorf("the cluster's version: %w", err)
		}
		t.access.mu.Lock()
		t.access.minor = minor
		t.access.mu.Unlock()
	}
	return minor >= oldestVolume, nil
}

// nextPlacement returns the placement to try after a pod has not started, "" for none: the runtime of a
// cluster's nodes may be older than the cluster.
func (d *Driver) nextPlacement(t *target, how Placement) Placement {
	if d.Placement != PlaceAuto || how != PlaceVolume {
		return ""
	}
	t.access.mu.Lock()
	defer t.access.mu.Unlock()
	if t.access.noImageVolumes {
		return PlaceInit // another call has noticed it
	}
	t.access.noImageVolumes = true
	return PlaceInit
}

// addGuest makes the first container of a pod start with the guest: it adds command, environment,
// volumes and init containers.
func (d *Driver) addGuest(how Placement, id string, n atoll.Network, spec *corev1.PodSpec) error {
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
			SecurityContext: c.SecurityContext.DeepCopy(), Resources: *c.Resources.DeepCopy(), // as much as the pod has anyway
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
		spec.NodeSelector[corev1.LabelArchStable] = runtime.GOARCH // architecture of the guest that is sent
	}
	c.Args = nil
	config := guest.Config{CanSwitchUser: d.Privileged, Egress: true}
	if needsProxy(&n) {
		config.Env = egress.Env(n)
	}
	env, err := d.guestEnv(id, &config, c.Env)
	c.Env = append(c.Env, env...)
	return err
}

// memoryVolume returns the volume for a copy of the guest.
func memoryVolume() corev1.Volume {
	size := resource.MustParse("32Mi")
	return corev1.Volume{Name: guestVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
	}}
}

// guestEnv returns the environment of the guest, besides the sandbox's own variables. None of it is
// secret.
func (d *Driver) guestEnv(id string, config *guest.Config, own []corev1.EnvVar) ([]corev1.EnvVar, error) {
	key, err := d.hostKey()
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
	public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // the public half of an Ed25519 key
	env := []corev1.EnvVar{
		{Name: "ATOLL_GUEST", Value: string(text)},
		{Name: "ATOLL_ID", Value: id},
		{Name: "ATOLL_KEY", Value: base64.StdEncoding.EncodeToString(public)},
		{Name: "ATOLL_OWN", Value: string(list)},
		{Name: "ATOLL_GUEST_PORT", Value: strconv.Itoa(guestPort)},
	}
	if d.Direct {
		env = append(env, corev1.EnvVar{Name: "ATOLL_DIRECT", Value: ":" + strconv.Itoa(directPort)})
	}
	return env, nil
}

// awaitGuest waits until the program at a path exists, and executes it; takeGuest creates it in one step,
// if it was transferred completely; hasGuest reports whether it exists.
const (
	awaitGuest = `until test -x "$0"; do sleep 0.02 2>/dev/null || sleep 1; done; exec "$0" pod`
	takeGuest  = `cat >"$0.$2" && test "$(wc -c <"$0.$2")" -eq "$1" && chmod 755 "$0.$2" && mv "$0.$2" "$0"`
	hasGuest   = `test -x "$0"`
)

// sendGuest sends the guest to a pod that waits for it (PlaceCopy).
func (p *pod) sendGuest(ctx context.Context) error {
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
	code, err := p.t.runCommand(ctx, &podCall{
		pod: p.podName(), container: p.containerName(), in: f, err: &words,
		args: []string{"/bin/sh", "-c", takeGuest, guestFile, strconv.FormatInt(info.Size(), 10), atoll.NewID()},
	})
	if err != nil {
		return fmt.Errorf("sending the guest: %w", err)
	}
	if code != 0 {
		return fmt.Errorf("%w: sending the guest: the pod's shell ended with %d: %s", atoll.ErrUnavailable, code, oneLine(words.String()))
	}
	return nil
}

// resendGuest sends the guest to a pod that still waits for it, since the process that has created the pod
// was killed before. It reports whether it did.
func (p *pod) resendGuest(ctx context.Context) (bool, error) {
	if p.how != PlaceCopy || p.agent != nil {
		return false, nil
	}
	code, err := p.t.runCommand(ctx, &podCall{pod: p.podName(), container: p.containerName(), args: []string{"/bin/sh", "-c", hasGuest, guestFile}})
	if err != nil || code == 0 {
		return false, err
	}
	return true, p.sendGuest(ctx)
}

// oneLine joins a text to one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
