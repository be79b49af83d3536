package kubernetes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// extraDirs returns the directories into which files are imported, besides the working directory.
// They can't be in the image, where they would belong to root.
func (p *pod) extraDirs() []string {
	var list []string
	work := path.Clean(p.spec.Dir)
	for _, d := range p.spec.Dirs {
		d = path.Clean(d)
		if !isImageDir(d) && d != work && !strings.HasPrefix(d, work+"/") && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

// dirVolumes returns the volumes of those directories. They end with the pod.
func (p *pod) dirVolumes() []corev1.Volume {
	if p.hasDiskLimit() {
		return nil // they are on the limited volume
	}
	var list []corev1.Volume
	for i := range p.extraDirs() {
		v := corev1.Volume{Name: fmt.Sprintf("dir-%d", i)}
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		if p.storageClass() == storageMemory {
			v.EmptyDir.Medium = corev1.StorageMediumMemory
		}
		list = append(list, v)
	}
	return list
}

// dirMounts returns the mounts of those volumes.
func (p *pod) dirMounts() []corev1.VolumeMount {
	var list []corev1.VolumeMount
	for i, d := range p.extraDirs() {
		m := corev1.VolumeMount{Name: fmt.Sprintf("dir-%d", i), MountPath: d}
		if p.hasDiskLimit() {
			m.Name, m.SubPath = workVolume, m.Name
		}
		list = append(list, m)
	}
	return list
}
