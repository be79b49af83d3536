package kubernetes

import (
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/atoll-sandbox/atoll"
)

// The users that sandboxes whose Spec names none are given, each one of its own:
// what the kernel counts for a user, such as processes, it counts for the
// sandbox.
const (
	firstUser = 1_000_000
	lastUser  = 2_000_000_000
)

// DefaultPIDs is how many processes a sandbox may have whose Spec has 0.
const DefaultPIDs = 512

// DefaultDisk is what a pod may write outside of its volume, before its node
// ends it: a backstop for the node's sake, not a limit that anybody asked for.
const DefaultDisk = 10 << 30

// guestCaps are the capabilities of process 1 where Driver.Privileged is set:
// it starts commands as other users, gives them their files and ends them. All
// are of Pod Security's "baseline".
var guestCaps = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SETPCAP", "KILL"}

// workVolume is the name of the volume that the working directory is.
const workVolume = "work"

// idle is what a container does that has no guest: nothing, until it is ended.
const idle = `trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done`

// template returns the pod of a sandbox.
func (p *pod) template(attempt string, env []string) (*corev1.Pod, error) {
	meta, err := p.meta(attempt)
	if err != nil {
		return nil, err
	}
	no, grace := false, int64(0)
	spec := corev1.PodSpec{
		Containers:                    []corev1.Container{p.container(env)},
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		SecurityContext:               p.podSecurity(),
		Hostname:                      p.id,
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		DNSPolicy:                     corev1.DNSClusterFirst,
	}
	if mode(&p.spec) == atoll.NetworkNone { // whom it could ask is nobody
		spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
	if r := p.spec.Runtime; r != "" {
		spec.RuntimeClassName = &r
	}
	if v := p.volume(); v != nil {
		spec.Volumes = append(spec.Volumes, *v)
	}
	spec.Volumes = append(spec.Volumes, p.dirVolumes()...)
	pod := &corev1.Pod{ObjectMeta: meta, Spec: spec}
	if p.how == PlaceNone {
		pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", idle}
		return pod, nil
	}
	if err := p.d.apply(p.how, p.id, p.spec.Network, &pod.Spec); err != nil {
		return nil, err
	}
	if n := or(p.spec.Limits.PIDs, DefaultPIDs); n > 0 && p.d.alone(&p.spec) {
		c := &pod.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "ATOLL_PIDS", Value: strconv.Itoa(n)})
	}
	return pod, nil
}

// container is what the programs of a sandbox are in.
func (p *pod) container(env []string) corev1.Container {
	c := corev1.Container{
		Name:            container,
		Image:           or(p.spec.Image, atoll.DefaultImage),
		ImagePullPolicy: corev1.PullIfNotPresent,
		WorkingDir:      path.Clean(p.spec.Dir),
		Resources:       p.resources(),
		SecurityContext: restricted(p),
	}
	for i, name := range env { // what a value is, only the Secret says
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: podName(p.id)}, Key: strconv.Itoa(i),
		}}})
	}
	if p.volume() != nil {
		c.VolumeMounts = p.volumeMounts()
	}
	c.VolumeMounts = append(c.VolumeMounts, p.dirMounts()...)
	if p.bounded() {
		yes := true
		c.SecurityContext.ReadOnlyRootFilesystem = &yes
	}
	return c
}

// restricted is what a container of a sandbox may: nothing.
func restricted(p *pod) *corev1.SecurityContext {
	no := false
	c := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if p.d.Privileged {
		c.Capabilities.Add = slices.Clone(guestCaps)
	}
	return c
}

// podSecurity says who the programs are.
func (p *pod) podSecurity() *corev1.PodSecurityContext {
	c := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	uid, gid, named := userOf(&p.spec)
	if p.d.Privileged && !named {
		return c // the image's
	}
	if !named {
		uid = ownUser(p.id)
		gid = uid
	}
	rarely := corev1.FSGroupChangeOnRootMismatch
	c.RunAsUser, c.RunAsGroup, c.FSGroup, c.FSGroupChangePolicy = &uid, &gid, &gid, &rarely
	if !p.d.Privileged {
		yes := true
		c.RunAsNonRoot = &yes
	}
	return c
}

// alone reports whether a sandbox's user is nobody else's.
func (d *Driver) alone(spec *atoll.Spec) bool { return spec.User == "" && !d.Privileged }

// ownUser is the user of the sandbox that has an id.
func ownUser(id string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it never fails
	return int64(firstUser + h.Sum64()%(lastUser-firstUser))
}

// userOf reads "1000", "1000:1000" and "root".
func userOf(spec *atoll.Spec) (uid, gid int64, named bool) {
	if spec.User == "root" {
		return 0, 0, true
	}
	user, group, both := strings.Cut(spec.User, ":")
	uid, err := strconv.ParseInt(user, 10, 32)
	if err != nil || uid < 0 {
		return 0, 0, false
	}
	if !both {
		return uid, uid, true
	}
	gid, err = strconv.ParseInt(group, 10, 32)
	return uid, gid, err == nil && gid >= 0
}

// resources are what is set aside and what is never passed: 0 is this driver's
// default, negative is none.
func (p *pod) resources() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	amount := func(name corev1.ResourceName, of func(int64) resource.Quantity, request, limit, usual, most int64) {
		if limit == 0 {
			limit = max(most, request)
		}
		if request == 0 {
			request = usual
		}
		if limit > 0 {
			request = min(request, limit)
			r.Limits[name] = of(limit)
		}
		r.Requests[name] = of(max(0, request)) // one that is left out would be the limit
	}
	amount(corev1.ResourceCPU, milliCores, milli(p.spec.Requests.CPU), milli(p.spec.Limits.CPU), DefaultRequestCPU*1000, DefaultCPU*1000)
	amount(corev1.ResourceMemory, byteCount, p.spec.Requests.Memory, p.spec.Limits.Memory, DefaultRequestMemory, DefaultMemory)
	aside := max(0, p.spec.Requests.Disk)
	if p.storage() != storageNone {
		aside = 0 // it is the volume's size
	}
	r.Requests[corev1.ResourceEphemeralStorage] = byteCount(aside)
	r.Limits[corev1.ResourceEphemeralStorage] = byteCount(max(aside, DefaultDisk))
	return r
}

func milliCores(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

func byteCount(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// milli returns thousandths, and never 0 for what is more.
func milli(cpu float64) int64 {
	if cpu > 0 {
		return max(1, int64(cpu*1000))
	}
	return int64(cpu)
}

// mode is how far a sandbox can reach.
func mode(spec *atoll.Spec) atoll.NetworkMode { return or(spec.Network.Mode, atoll.NetworkNone) }
