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

// The range of users of sandboxes whose Spec names none. Each sandbox has its own: what the kernel counts
// for a user, such as processes, it then counts for the sandbox.
const (
	firstUser = 1_000_000
	lastUser  = 2_000_000_000
)

// DefaultPIDs is the limit of processes of a sandbox whose Spec has 0.
const DefaultPIDs = 512

// DefaultDisk is how much a pod may write outside of its volume before its node ends it, in bytes. It
// protects the node; it is not a limit of the Spec.
const DefaultDisk = 10 << 30

// guestCaps are the capabilities of process 1 if Driver.Privileged is set: it starts commands as other
// users, changes the owners of files and ends commands. Pod Security's level "baseline" allows all.
var guestCaps = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SETPCAP", "KILL"}

// workVolume is the name of the volume of the working directory.
const workVolume = "work"

// idleScript is the program of a container without a guest: it waits until it is ended.
const idleScript = `trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done`

// newPodObject returns the pod of a sandbox as an object of the API.
func (p *pod) newPodObject(attempt string, env []string) (*corev1.Pod, error) {
	meta, err := p.objectMeta(attempt)
	if err != nil {
		return nil, err
	}
	no, grace := false, int64(0)
	spec := corev1.PodSpec{
		Containers:                    []corev1.Container{p.newContainer(env)},
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		SecurityContext:               p.podSecurity(),
		Hostname:                      p.id,
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		DNSPolicy:                     corev1.DNSClusterFirst,
	}
	if networkMode(&p.spec) == atoll.NetworkNone { // no name server can be reached
		spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
	if r := p.spec.Runtime; r != "" {
		spec.RuntimeClassName = &r
	}
	if v := p.workVolumeSource(); v != nil {
		spec.Volumes = append(spec.Volumes, *v)
	}
	spec.Volumes = append(spec.Volumes, p.dirVolumes()...)
	pod := &corev1.Pod{ObjectMeta: meta, Spec: spec}
	if p.how == PlaceNone {
		pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", idleScript}
		return pod, nil
	}
	if err := p.d.addGuest(p.how, p.id, p.spec.Network, &pod.Spec); err != nil {
		return nil, err
	}
	if n := orDefault(p.spec.Limits.PIDs, DefaultPIDs); n > 0 && p.d.hasOwnUser(&p.spec) {
		c := &pod.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "ATOLL_PIDS", Value: strconv.Itoa(n)})
	}
	return pod, nil
}

// newContainer returns the container in which programs run.
func (p *pod) newContainer(env []string) corev1.Container {
	c := corev1.Container{
		Name:            container,
		Image:           orDefault(p.spec.Image, atoll.DefaultImage),
		ImagePullPolicy: corev1.PullIfNotPresent,
		WorkingDir:      path.Clean(p.spec.Dir),
		Resources:       p.podResources(),
		SecurityContext: containerSecurity(p),
	}
	for i, name := range env { // only the Secret has the values
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: podName(p.id)}, Key: strconv.Itoa(i),
		}}})
	}
	if p.workVolumeSource() != nil {
		c.VolumeMounts = p.volumeMounts()
	}
	c.VolumeMounts = append(c.VolumeMounts, p.dirMounts()...)
	if p.hasDiskLimit() {
		yes := true
		c.SecurityContext.ReadOnlyRootFilesystem = &yes
	}
	return c
}

// containerSecurity returns the privileges of a sandbox's container: none, if possible.
func containerSecurity(p *pod) *corev1.SecurityContext {
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

// podSecurity returns the users of the pod's programs.
func (p *pod) podSecurity() *corev1.PodSecurityContext {
	c := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	uid, gid, named := userOf(&p.spec)
	if p.d.Privileged && !named {
		return c // the users of the image
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

// hasOwnUser reports whether a sandbox has a user that no other has.
func (d *Driver) hasOwnUser(spec *atoll.Spec) bool { return spec.User == "" && !d.Privileged }

// ownUser returns the user of the sandbox with an id.
func ownUser(id string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it never fails
	return int64(firstUser + h.Sum64()%(lastUser-firstUser))
}

// userOf parses "1000", "1000:1000" and "root".
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

// podResources returns the requests and limits: 0 is this driver's default, a negative one is none.
func (p *pod) podResources() corev1.ResourceRequirements {
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
		r.Requests[name] = of(max(0, request)) // without a request it would be the limit
	}
	amount(corev1.ResourceCPU, milliCores, milliCPU(p.spec.Requests.CPU), milliCPU(p.spec.Limits.CPU), DefaultRequestCPU*1000, DefaultCPU*1000)
	amount(corev1.ResourceMemory, byteCount, p.spec.Requests.Memory, p.spec.Limits.Memory, DefaultRequestMemory, DefaultMemory)
	aside := max(0, p.spec.Requests.Disk)
	if p.storageClass() != storageNone {
		aside = 0 // then it is the size of the volume
	}
	r.Requests[corev1.ResourceEphemeralStorage] = byteCount(aside)
	r.Limits[corev1.ResourceEphemeralStorage] = byteCount(max(aside, DefaultDisk))
	return r
}

func milliCores(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

func byteCount(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// milliCPU returns thousandths of a CPU, at least 1 for any part of one.
func milliCPU(cpu float64) int64 {
	if cpu > 0 {
		return max(1, int64(cpu*1000))
	}
	return int64(cpu)
}

// networkMode returns the mode of a sandbox's network.
func networkMode(spec *atoll.Spec) atoll.NetworkMode {
	return orDefault(spec.Network.Mode, atoll.NetworkNone)
}
