// Package ext4 writes ext4 file systems into files, without mounting, without
// rights and without other programs: the same content gives the same bytes.
package ext4
