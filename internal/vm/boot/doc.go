// Package boot prepares the boot files of VMs from the kernel of a Linux distribution: the kernel
// in the form that hypervisors load fastest, and an initramfs with the guest agent as its only
// program and the modules that it needs.
//
// It needs no privileges except to read the kernel, and no other programs.
package boot
