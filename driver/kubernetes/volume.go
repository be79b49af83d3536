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

// DefaultVolume is the size of a volume in bytes if Spec.Requests.Disk is 0.
const DefaultVolume = 10 << 30

// Names of storage that are not storage classes.
const (
	storageNone    = "none"
	storageMemory  = "memory"
	storageDefault = "default" // the cluster's default class
)

// storageClass returns the storage of the working directory of a sandbox.
func (p *pod) storageClass() string { return p.d.storageOf(&p.spec) }

func (d *Driver) storageOf(spec *atoll.Spec) string {
	if spec.Pod != nil && spec.Pod.StorageClass != "" {
		return spec.Pod.StorageClass
	}
	return orDefault(d.StorageClass, storageNone)
}

// outlivesPod reports whether a kind of storage outlives a pod.
func outlivesPod(storage string) bool { return storage != storageNone && storage != storageMemory }

// hasVolume reports whether the sandbox has a volume that outlives its pod.
func (p *pod) hasVolume() bool { return outlivesPod(p.storageClass()) }

// hasDiskLimit reports whether all files that the sandbox can write are on one volume with a size limit.
func (p *pod) hasDiskLimit() bool { return p.storageClass() == storageMemory && p.spec.Limits.Disk > 0 }

// systemDirs are directories that an image needs unchanged: a working directory in one is on the image.
var systemDirs = []string{"/proc", "/sys", "/dev", "/boot", "/etc", "/var", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/tmp", "/run"}

// isImageDir reports whether a working directory can't be a volume.
func isImageDir(dir string) bool {
	dir = path.Clean(dir)
	for _, s := range systemDirs {
		if dir == s || strings.HasPrefix(dir, s+"/") {
			return true
		}
	}
	return dir == "/"
}

// workVolumeSource returns the volume of the working directory; nil: it is in the image.
func (p *pod) workVolumeSource() *corev1.Volume {
	if isImageDir(p.spec.Dir) && !p.hasDiskLimit() {
		return nil
	}
	v := &corev1.Volume{Name: workVolume}
	switch {
	case p.hasVolume():
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: podName(p.id)}
	case p.storageClass() == storageMemory:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if n := p.spec.Limits.Disk; n > 0 {
			v.EmptyDir.SizeLimit = resource.NewQuantity(n, resource.BinarySI)
		}
	default:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return v
}

// volumeMounts returns the mounts of the volume: at the working directory and, if all files count, at /tmp
// too.
func (p *pod) volumeMounts() []corev1.VolumeMount {
	dir := path.Clean(p.spec.Dir)
	if !p.hasDiskLimit() {
		return []corev1.VolumeMount{{Name: workVolume, MountPath: dir}}
	}
	mounts := []corev1.VolumeMount{{Name: workVolume, MountPath: "/tmp", SubPath: "tmp"}}
	if !isImageDir(dir) {
		mounts = append(mounts, corev1.VolumeMount{Name: workVolume, MountPath: dir, SubPath: "work"})
	}
	return mounts
}

// newVolumeClaim returns the claim of the volume that outlives the pod.
func (p *pod) newVolumeClaim(attempt string) (*corev1.PersistentVolumeClaim, error) {
	meta, err := p.objectMeta(attempt)
	if err != nil {
		return nil, err
	}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceStorage: *resource.NewQuantity(orDefault(max(0, p.spec.Requests.Disk), DefaultVolume), resource.BinarySI),
		}},
	}}
	if class := p.storageClass(); class != storageDefault {
		pvc.Spec.StorageClassName = &class
	}
	return pvc, nil
}

// isDefaultClass is the annotation of the cluster's default class.
const isDefaultClass = "storageclass.kubernetes.io/is-default-class"

// storageClasses returns the names of the cluster's storage classes, and of its default one; nil and no
// error if listing them is not allowed.
func (t *target) storageClasses(ctx context.Context) (names []string, usual string, err error) {
	err = t.callAPI(ctx, func(ctx context.Context) error {
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

// getVolume returns the existing volume.
func (p *pod) getVolume(ctx context.Context) (found *corev1.PersistentVolumeClaim, err error) {
	err = p.t.callAPI(ctx, func(ctx context.Context) error {
		found, err = p.t.core.PersistentVolumeClaims(p.t.namespace).Get(ctx, podName(p.id), metav1.GetOptions{})
		return err
	})
	if err == nil && (found.DeletionTimestamp != nil || found.Labels[labelID] != p.id) {
		err = fmt.Errorf("%w: the volume %s is being removed", atoll.ErrNotFound, podName(p.id))
	}
	return found, err
}
