// Package project has the tests of projects as their users see them: the real
// binary, real repositories, real walls.
package project
