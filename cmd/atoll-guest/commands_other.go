//go:build !linux

package main

// commands returns nil: sandboxes with real programs need Linux.
func commands() map[string]func(args []string) int { return nil }
