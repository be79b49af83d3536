package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	storageClass = "local"
	provisioner  = "atoll-sandbox.github.io/local"
)

// volumeProvisioner creates a directory of the node for every claim of the default
// storage class, and removes it with the claim.
type volumeProvisioner struct {
	client *kubernetes.Clientset
	dir    string
	logf   func(string, ...any)
}

// createStorageClass creates the default storage class. Volumes are bound at once,
// and the kubelet changes their group to a pod's fsGroup.
func createStorageClass(ctx context.Context, client *kubernetes.Clientset) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       provisioner,
		ReclaimPolicy:     new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	return err
}

// watchClaims creates and removes volumes until the context is done.
func (v volumeProvisioner) watchClaims(ctx context.Context, f informers.SharedInformerFactory) error {
	_, err := f.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handleEach(func(o any) {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			v.logError("claim "+claim.Namespace+"/"+claim.Name, v.provisionVolume(ctx, claim))
		}
	}))
	if err != nil {
		return err
	}
	_, err = f.Core().V1().PersistentVolumes().Informer().AddEventHandler(handleEach(func(o any) {
		if pv, ok := o.(*corev1.PersistentVolume); ok {
			v.logError("volume "+pv.Name, v.reclaimVolume(ctx, pv))
		}
	}))
	return err
}

func (v volumeProvisioner) logError(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		v.logf("%s: %v", what, err)
	}
}

// handleEach returns a handler that calls do for every new or changed object. The
// informer's resync repeats the call for objects that failed.
func handleEach(do func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }}
}

// provisionVolume creates the volume of a claim that waits for this provisioner.
func (v volumeProvisioner) provisionVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil ||
		claim.Annotations["volume.kubernetes.io/storage-provisioner"] != provisioner {
		return nil
	}
	pv := v.newVolume(claim)
	if err := os.MkdirAll(pv.Spec.Local.Path, 0o755); err != nil {
		return err
	}
	_, err := v.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (v volumeProvisioner) newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	here := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(v.dir, name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{here}},
			}}},
		},
	}
}

// reclaimVolume removes a volume whose claim was deleted.
func (v volumeProvisioner) reclaimVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Status.Phase != corev1.VolumeReleased || pv.Spec.Local == nil || pv.DeletionTimestamp != nil ||
		pv.Annotations["pv.kubernetes.io/provisioned-by"] != provisioner ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := os.RemoveAll(pv.Spec.Local.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing its data: %w", err)
	}
	err := v.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
