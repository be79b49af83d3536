//go:build !linux

package main

// commands: sandboxes that run real programs are Linux's.
func commands() map[string]func(args []string) int { return nil }
