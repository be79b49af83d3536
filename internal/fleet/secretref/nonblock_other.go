//go:build !unix

package secretref

// nonblock is nothing where pipes are no files.
const nonblock = 0
