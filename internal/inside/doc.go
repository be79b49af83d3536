// Package inside is process 1 of a virtual machine: what it does between the
// kernel's last word and the guest's first.
//
// It loads the modules that came with it and says on the port "atoll" that it
// is there, again and again, until it is told to go on: until then it has
// mounted no disk and knows nothing, so that a machine saved at this moment is
// nobody's, and any number of others wake from it. Then the port is multiplexed
// (yamux). On the first stream comes a [Setup]; each further one is a
// connection of a host to the guest.
//
// The walls of a machine are around it. Inside, root may do everything: read
// and write the disks beneath their file systems, load modules, stop this
// process; others may do what Linux lets them.
package inside
