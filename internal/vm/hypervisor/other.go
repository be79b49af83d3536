//go:build !linux

package hypervisor

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll"
)

var errPlatform = fmt.Errorf("%w: VMs need Linux", atoll.ErrUnsupported)

// Machine is a running VM.
type Machine struct{}

// Start needs Linux.
func Start(context.Context, *Config) (*Machine, error) { return nil, errPlatform }

// Open needs Linux.
func Open(string) (*Machine, error) { return nil, errPlatform }

// SaveTemplate needs Linux.
func SaveTemplate(context.Context, *Config, string) error { return errPlatform }

// Version needs Linux.
func Version(context.Context, string) (string, error) { return "", errPlatform }

// FindQEMU needs Linux.
func FindQEMU() (string, error) { return "", errPlatform }

// Ended needs Linux.
func Ended(string) (*End, error) { return nil, errPlatform }

// Tail needs Linux.
func Tail(string) string { return "" }

// Monitor needs Linux.
func Monitor(*os.File) error { return errPlatform }

// Confine needs Linux.
func Confine(*os.File) error { return errPlatform }

// Savable needs Linux.
func (c *Config) Savable() error { return errPlatform }

// Key needs Linux.
func (c *Config) Key() (string, error) { return "", errPlatform }

// Dial needs Linux.
func (m *Machine) Dial(context.Context) (net.Conn, error) { return nil, errPlatform }

// Status needs Linux.
func (m *Machine) Status(context.Context) (Status, error) { return Status{}, errPlatform }

// Pause needs Linux.
func (m *Machine) Pause(context.Context) error { return errPlatform }

// Resume needs Linux.
func (m *Machine) Resume(context.Context) error { return errPlatform }

// PowerOff needs Linux.
func (m *Machine) PowerOff(context.Context) error { return errPlatform }

// Kill needs Linux.
func (m *Machine) Kill(context.Context) error { return errPlatform }

// Wait needs Linux.
func (m *Machine) Wait(context.Context) (*End, error) { return nil, errPlatform }

// Close needs Linux.
func (m *Machine) Close() error { return errPlatform }
