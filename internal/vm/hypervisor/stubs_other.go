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

// VM is a running VM.
type VM struct{}

// Start needs Linux.
func Start(context.Context, *Config) (*VM, error) { return nil, errPlatform }

// Open needs Linux.
func Open(string) (*VM, error) { return nil, errPlatform }

// SaveTemplate needs Linux.
func SaveTemplate(context.Context, *Config, string) error { return errPlatform }

// Version needs Linux.
func Version(context.Context, string) (string, error) { return "", errPlatform }

// FindQEMU needs Linux.
func FindQEMU() (string, error) { return "", errPlatform }

// LastEnd needs Linux.
func LastEnd(string) (*End, error) { return nil, errPlatform }

// BootLogTail needs Linux.
func BootLogTail(string) string { return "" }

// RunMonitor needs Linux.
func RunMonitor(*os.File) error { return errPlatform }

// Confine needs Linux.
func Confine(*os.File) error { return errPlatform }

// CheckSavable needs Linux.
func (c *Config) CheckSavable() error { return errPlatform }

// TemplateKey needs Linux.
func (c *Config) TemplateKey() (string, error) { return "", errPlatform }

// Dial needs Linux.
func (m *VM) Dial(context.Context) (net.Conn, error) { return nil, errPlatform }

// Status needs Linux.
func (m *VM) Status(context.Context) (Status, error) { return Status{}, errPlatform }

// Pause needs Linux.
func (m *VM) Pause(context.Context) error { return errPlatform }

// Resume needs Linux.
func (m *VM) Resume(context.Context) error { return errPlatform }

// PowerOff needs Linux.
func (m *VM) PowerOff(context.Context) error { return errPlatform }

// AddLayer needs Linux.
func (m *VM) AddLayer(context.Context, string, []*os.File) error { return errPlatform }

// HasLayer needs Linux.
func (m *VM) HasLayer(context.Context, string) (bool, error) { return false, errPlatform }

// Kill needs Linux.
func (m *VM) Kill(context.Context) error { return errPlatform }

// Wait needs Linux.
func (m *VM) Wait(context.Context) (*End, error) { return nil, errPlatform }

// Close needs Linux.
func (m *VM) Close() error { return errPlatform }
