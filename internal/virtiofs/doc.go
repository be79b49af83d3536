// Package virtiofs serves directories of the host to virtual machines: one
// virtiofsd for each, a program of QEMU's or the one of its own project, which
// sees nothing else of the host. For 9p it is QEMU's own helper.
//
// It runs in namespaces of its own, without a network, as two users: who is root
// inside the machine is a user of the host that owns nothing, and the user of
// the machine is the owner of the directory. Links are followed inside the
// machine; one that leads out leads to the machine's own files.
package virtiofs
