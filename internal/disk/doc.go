// Package disk makes file systems of a fixed size: each an image in a file of the
// host, mounted where only the holder of a descriptor reaches it. It needs the
// host's root.
package disk
