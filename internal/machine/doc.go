// Package machine runs virtual machines: a hypervisor in a jail, and a monitor
// that watches it.
//
// The monitor is a process of its own, one for each machine that runs. It
// outlives who started it, holds the only ways to the machine, and ends with it:
//
//	atoll ──unix──> DIR/guest.sock ──┐                          ┌── virtio-serial port "atoll" ── the guest
//	      ──unix──> DIR/monitor.sock ┴ monitor ── socketpairs ──┴── QMP, console
//
// On the port the guest first repeats a line; that is the moment at which a
// machine can be saved as a template, and at which its clones wake. Told to go
// on, it speaks yamux, of which every connection to guest.sock is a stream. The
// monitor never looks into those.
//
// What comes out of a machine, and out of a hypervisor, is believed by nobody:
// frames, lines and logs are bounded, and shown without control characters.
package machine
