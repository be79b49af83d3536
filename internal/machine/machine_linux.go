package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// Machine is a machine that runs. Its methods may be called at once from many
// goroutines.
type Machine struct {
	dir     string
	monitor *os.File // its pidfd
}

// Start starts a machine and returns when its guest serves. When it fails, or
// this process is killed meanwhile, nothing of the machine is left but its
// boot.log and end.json; the error quotes the end of the log. The configuration
// is not kept; files in it remain the caller's.
func Start(ctx context.Context, c *Config) (*Machine, error) {
	return nil, atoll.ErrUnsupported
}

// Open finds the machine that runs in a directory. That none does is
// atoll.ErrNotFound; see Ended.
func Open(dir string) (*Machine, error) { return nil, atoll.ErrUnsupported }

// SaveTemplate boots a machine until its guest waits to be told to go on, saves
// it into a directory that isn't there yet, and ends it. The directory appears
// in one step. Disks are only opened: their content is not part of a template.
func SaveTemplate(ctx context.Context, c *Config, dir string) error { return atoll.ErrUnsupported }

// FindQEMU returns the path of QEMU for this machine's architecture, or an error
// that says how to get it.
func FindQEMU() (string, error) { return "", atoll.ErrUnsupported }

// Version returns the version of a QEMU, such as "7.2.22". It is asked once for
// each file as it is.
func Version(ctx context.Context, qemu string) (string, error) { return "", atoll.ErrUnsupported }

// Dial connects to the guest.
func (m *Machine) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.dir, GuestSocket))
}

// Status tells how the machine is. One that is over is no error.
func (m *Machine) Status(ctx context.Context) (Status, error) { return Status{}, atoll.ErrUnsupported }

// Pause stops the machine's processors. Pausing twice is not an error.
func (m *Machine) Pause(ctx context.Context) error { return atoll.ErrUnsupported }

// Resume lets a machine go on that is paused or stuck.
func (m *Machine) Resume(ctx context.Context) error { return atoll.ErrUnsupported }

// PowerOff waits until the machine, which was asked over the wire to switch
// itself off, has done so, and kills it when ctx is done first. Afterwards
// monitor and hypervisor are gone.
func (m *Machine) PowerOff(ctx context.Context) error { return atoll.ErrUnsupported }

// Kill ends the machine at once. When it returns, monitor and hypervisor are
// gone. Killing one that is over is not an error.
func (m *Machine) Kill(ctx context.Context) error { return atoll.ErrUnsupported }

// Wait waits until the machine is over and tells why; see Ended.
func (m *Machine) Wait(ctx context.Context) (*End, error) {
	return nil, fmt.Errorf("%w", atoll.ErrUnsupported)
}

// Close lets go of the machine, which goes on.
func (m *Machine) Close() error { return m.monitor.Close() }
