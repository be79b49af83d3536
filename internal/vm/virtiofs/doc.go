// Package virtiofs serves directories of the host to VMs. Each is served by a separate virtiofsd,
// either QEMU's or that of its own project, which sees nothing else of the host. For 9p it is a
// helper of QEMU.
//
// The server runs in its own namespaces, without a network, with two users: root of the VM is a
// user of the host that owns nothing, and the user of the VM is the owner of the directory. Links
// are resolved inside the VM, so they lead to the VM's own files.
package virtiofs
