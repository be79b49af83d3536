// Package project tests projects as users see them: with the real binary, real
// repositories and real sandboxes.
package project
