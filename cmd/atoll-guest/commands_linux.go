package main

import (
	"fmt"
	"os"
)

// listCommands returns the functions of this program by its first argument.
func listCommands() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"init":    initMain,    // process 1 of a namespace sandbox
		"serve":   serveMain,   // process 1 of a container
		"pod":     podMain,     // process 1 of a pod's container
		"copy":    copyMain,    // puts this program where that finds it
		"pipe":    pipeMain,    // joins its standard streams to that one's socket
		"spawn":   spawnMain,   // makes namespace sandboxes, outside
		"machine": vmMain,      // process 1 of a virtual machine, there as /init
		"monitor": monitorMain, // watches a virtual machine, outside
		"confine": confineMain, // becomes a virtual machine's hypervisor, in its jail
		"share":   shareMain,   // serves a directory of the host to a virtual machine, outside
		"netns":   netnsMain,   // sets up the redirection of a container's network
	}
}

// printFailure prints the error that ends a command and returns its exit status.
func printFailure(command string, err error) int {
	fmt.Fprintf(os.Stderr, "atoll-guest %s: %v\n", command, err)
	return 1
}
