// Package qcow2 creates and reads QEMU's copy-on-write disk files without QEMU: overlays over a
// backing file, chains of them, and copies.
//
// A guest can't write a file's header, but a file from elsewhere may contain anything. So no file
// that a header names is opened unless the caller expects it.
package qcow2
