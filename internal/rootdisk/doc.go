// Package rootdisk keeps the disks of machines: base disks, made once of images
// and directories and shared by all that lie over them; overlays and working
// disks that belong to one machine; and disks that outlived theirs.
//
// Any number of processes may use a store, and any number of goroutines. What a
// process that died has left is removed by the next.
package rootdisk
