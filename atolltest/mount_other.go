//go:build !unix

package atolltest

// mountedSpecialFilesDontBlock checks nothing: this system has no such files.
func mountedSpecialFilesDontBlock(*env) {}
