package kubernetes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// dirs are the directories that files are brought into, and that are not in the
// working directory: the image's belong to root.
func (p *pod) dirs() []string {
	var list []string
	work := path.Clean(p.spec.Dir)
	for _, d := range p.spec.Dirs {
		d = path.Clean(d)
		if !ofImage(d) && d != work && !strings.HasPrefix(d, work+"/") && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

// dirVolumes are what those directories are. They end with the pod.
func (p *pod) dirVolumes() []corev1.Volume {
	if p.bounded() {
		return nil // they count with all other files
	}
	var list []corev1.Volume
	for i := range p.dirs() {
		v := corev1.Volume{Name: fmt.Sprintf("dir-%d", i)}
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		if p.storage() == storageMemory {
			v.EmptyDir.Medium = corev1.StorageMediumMemory
		}
		list = append(list, v)
	}
	return list
}

// dirMounts are where they are seen.
func (p *pod) dirMounts() []corev1.VolumeMount {
	var list []corev1.VolumeMount
	for i, d := range p.dirs() {
		m := corev1.VolumeMount{Name: fmt.Sprintf("dir-%d", i), MountPath: d}
		if p.bounded() {
			m.Name, m.SubPath = workVolume, m.Name
		}
		list = append(list, m)
	}
	return list
}
