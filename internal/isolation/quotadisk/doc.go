// Package quotadisk makes file systems of a fixed size. Each is an image in a file of the host, and
// is mounted where only the holders of a descriptor reach it. The package needs the host's root.
package quotadisk
