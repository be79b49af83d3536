// Package ext4 writes ext4 file systems into files, without mounting, without privileges and
// without other programs. The same content results in the same bytes.
//
// Data blocks are written in the order in which they are read, one file after the other;
// directories, inodes and group metadata are written last. A file system is made with its maximum
// size, and made smaller by changing a few blocks ([Shrink]), which an overlay can contain.
//
// It has a journal: a VM may be killed at any instant, and only its own kernel repairs its disk.
package ext4
