// Package ext4 writes ext4 file systems into files, without mounting, without
// rights and without other programs: the same content gives the same bytes.
//
// What is written once stays where it is: data comes in as it is read, one file
// after the other; directories, inodes and what describes the groups come last.
// A file system is made as large as it will ever be and is fitted to less by a
// few changed blocks ([Fit]), which an overlay can hold.
//
// It has a journal: a machine may be killed at any instant, and nothing repairs
// its disk but its own kernel.
package ext4
