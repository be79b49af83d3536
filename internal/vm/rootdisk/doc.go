// Package rootdisk stores the disks of VMs: base disks, which are made once from images and
// directories, and shared by the overlays above them; overlays and work disks of one VM; and
// persistent disks, which outlive their VM.
//
// A store is safe for concurrent use by any number of processes and goroutines. A later process
// removes the unfinished files of one that was killed.
package rootdisk
