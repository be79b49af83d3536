package kubernetes

import (
	"context"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// DefaultVolume is the size of a volume, where Spec.Requests.Disk has 0.
const DefaultVolume = 10 << 30

// Words for storage that are no classes.
const (
	storageNone    = "none"
	storageMemory  = "memory"
	storageDefault = "default" // the cluster's default class
)

// storage is what the working directory of a sandbox is kept in.
func (p *pod) storage() string { return p.d.storageOf(&p.spec) }

func (d *Driver) storageOf(spec *atoll.Spec) string {
	if spec.Pod != nil && spec.Pod.StorageClass != "" {
		return spec.Pod.StorageClass
	}
	return or(d.StorageClass, storageNone)
}

// lasting reports whether a kind of storage outlives a pod.
func lasting(storage string) bool { return storage != storageNone && storage != storageMemory }

// keeps reports whether the sandbox has a volume that outlives its pod.
func (p *pod) keeps() bool { return lasting(p.storage()) }

// bounded reports whether all files that the sandbox can write are in one place
// of a size.
func (p *pod) bounded() bool { return p.storage() == storageMemory && p.spec.Limits.Disk > 0 }

// system are directories that an image needs to be as they are: the working
// directory may be in one, and then is the image's.
var system = []string{"/proc", "/sys", "/dev", "/boot", "/etc", "/var", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/tmp", "/run"}

// ofImage reports whether a working directory can't be a volume.
func ofImage(dir string) bool {
	dir = path.Clean(dir)
	for _, s := range system {
		if dir == s || strings.HasPrefix(dir, s+"/") {
			return true
		}
	}
	return dir == "/"
}

// volume is what holds the working directory; nil: the image does.
func (p *pod) volume() *corev1.Volume {
	if ofImage(p.spec.Dir) && !p.bounded() {
		return nil
	}
	v := &corev1.Volume{Name: workVolume}
	switch {
	case p.keeps():
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: podName(p.id)}
	case p.storage() == storageMemory:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if n := p.spec.Limits.Disk; n > 0 {
			v.EmptyDir.SizeLimit = resource.NewQuantity(n, resource.BinarySI)
		}
	default:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return v
}

// volumeMounts are where the volume is seen: at the working directory, and where
// all files count, at /tmp too.
func (p *pod) volumeMounts() []corev1.VolumeMount {
	dir := path.Clean(p.spec.Dir)
	if !p.bounded() {
		return []corev1.VolumeMount{{Name: workVolume, MountPath: dir}}
	}
	mounts := []corev1.VolumeMount{{Name: workVolume, MountPath: "/tmp", SubPath: "tmp"}}
	if !ofImage(dir) {
		mounts = append(mounts, corev1.VolumeMount{Name: workVolume, MountPath: dir, SubPath: "work"})
	}
	return mounts
}

// claim returns the volume that outlives the pod.
func (p *pod) claim(attempt string) (*corev1.PersistentVolumeClaim, error) {
	meta, err := p.meta(attempt)
	if err != nil {
		return nil, err
	}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceStorage: *resource.NewQuantity(or(max(0, p.spec.Requests.Disk), DefaultVolume), resource.BinarySI),
		}},
	}}
	if class := p.storage(); class != storageDefault {
		pvc.Spec.StorageClassName = &class
	}
	return pvc, nil
}

// isDefaultClass is the annotation of the class that is taken where none is
// named.
const isDefaultClass = "storageclass.kubernetes.io/is-default-class"

// classes returns the names of the cluster's storage classes, and of its default
// one; nil and no error where they may not be looked at.
func (t *target) classes(ctx context.Context) (names []string, usual string, err error) {
	err = t.ask(ctx, func(ctx context.Context) error {
		list, err := t.storage.StorageClasses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names = nil
		for _, c := range list.Items {
			names = append(names, c.Name)
			if c.Annotations[isDefaultClass] == "true" {
				usual = c.Name
			}
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return nil, "", nil
	}
	return names, usual, err
}

// getClaim returns the volume that is there.
func (p *pod) getClaim(ctx context.Context) (found *corev1.PersistentVolumeClaim, err error) {
	err = p.t.ask(ctx, func(ctx context.Context) error {
		found, err = p.t.core.PersistentVolumeClaims(p.t.namespace).Get(ctx, podName(p.id), metav1.GetOptions{})
		return err
	})
	if err == nil && (found.DeletionTimestamp != nil || found.Labels[labelID] != p.id) {
		err = fmt.Errorf("%w: the volume %s is being removed", atoll.ErrNotFound, podName(p.id))
	}
	return found, err
}
