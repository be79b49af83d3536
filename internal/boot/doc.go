// Package boot makes what a virtual machine starts from out of a kernel of a
// Linux distribution: the kernel as hypervisors load it fastest, and an
// initramfs with the guest as its only program and the modules that it needs.
//
// It needs no rights but to read the kernel, and no other programs.
package boot
