//go:build !unix

package atolltest

// mountedSpecialFilesDontBlock has nothing to plant here.
func mountedSpecialFilesDontBlock(*env) {}
