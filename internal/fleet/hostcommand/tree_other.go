//go:build !unix

package hostcommand

import "os/exec"

// killTree does nothing: the end of the command's context kills its process only.
func killTree(*exec.Cmd) {}
