//go:build !linux

package main

// listCommands returns nil: sandboxes with real programs need Linux.
func listCommands() map[string]func(args []string) int { return nil }
