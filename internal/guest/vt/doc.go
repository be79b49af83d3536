// Package vt emulates a terminal. An Emulator takes the output of a program, keeps the
// screen, and can serialize it as bytes that put any terminal into
// the same state. Terminal is a terminal with a program and any number
// of viewers.
//
// The model follows xterm as implemented by xterm.js. Its memory is bounded, whatever
// the input. It forwards to viewers' terminals only sequences that it understands:
// none that makes a terminal answer, set a clipboard or open a file.
package vt
