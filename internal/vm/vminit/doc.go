// Package vminit is process 1 of a VM: it runs between the end of the kernel's boot and the start
// of the guest agent.
//
// It loads the modules of its initramfs, and repeats a hello line on the port "atoll" until it is
// told to continue. Until then it has mounted no disk and received no configuration: a VM that is
// saved at this moment can be resumed as any number of others. Then the port is multiplexed
// (yamux). The first stream carries a [Setup]; each further one is a connection of a host to the
// guest agent.
//
// The security boundary is around the VM. Inside it, root may do everything: read and write the
// disks below their file systems, load modules, stop this process. Other users have the rights that
// Linux gives them.
package vminit
