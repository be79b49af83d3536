// Package vt is a terminal as a model: what a program writes to it, the screen
// that a person would see, and that screen as bytes that put any terminal into
// the same state. Shared is such a terminal with a program on it and any number
// of people before it.
//
// The model is xterm as xterm.js has it. It holds a bounded amount, whatever it
// is fed, and passes on to the terminals of people only what it understands:
// nothing that asks them to answer, to set a clipboard or to open a file.
package vt
