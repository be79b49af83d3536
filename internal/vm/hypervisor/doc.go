// Package hypervisor runs VMs. Each VM is a hypervisor process with restricted rights, and a monitor
// process that watches it.
//
// The monitor outlives the process that started it, owns all connections to the VM, and ends
// together with it:
//
//	atoll ──unix──> DIR/guest.sock ──┐                          ┌── virtio-serial port "atoll" ── the guest
//	      ──unix──> DIR/monitor.sock ┴ monitor ── socketpairs ──┴── QMP, console
//
// On the port the guest agent first repeats a hello line. At that moment a VM can be saved as a
// template, and there its clones resume. When the monitor tells it to continue, the port carries
// yamux; every connection to guest.sock is a stream of it. The monitor never reads the streams.
//
// Output of a VM or a hypervisor is not trusted: frames, lines and logs are bounded, and are shown
// without control characters.
package hypervisor
