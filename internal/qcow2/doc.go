// Package qcow2 makes and reads the files that QEMU keeps changes of disks in,
// without QEMU: overlays over a backing file, chains of them, and copies.
//
// A guest writes what is on a disk, never the file's header; but a file that
// came from elsewhere may say anything there, so nothing that a header names is
// opened unless the caller expects it.
package qcow2
