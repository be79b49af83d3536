package vminit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// moduleDir is the directory of the modules in the initramfs, as internal/vm/boot makes it: a file
// for each, and a list with their dependencies.
const moduleDir = "/modules"

// modules are the modules of the initramfs.
type modules struct {
	dir   string
	needs map[string][]string // by name; built-in modules are missing
	done  map[string]bool
}

func readModules() (*modules, error) {
	b, err := os.ReadFile(moduleDir + "/list")
	if err != nil {
		return nil, fmt.Errorf("the modules of the kernel: %w", err)
	}
	m := &modules{dir: moduleDir, needs: map[string][]string{}, done: map[string]bool{}}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 {
			m.needs[f[0]] = f[1:]
		}
	}
	return m, nil
}

// bootModules returns the modules that every VM needs: for its bus, its devices, and to redirect
// connections to the egress proxy.
func bootModules() []string {
	bus := "virtio_mmio"
	if found, err := filepath.Glob("/sys/bus/pci/devices/*"); err == nil && len(found) > 0 {
		bus = "virtio_pci"
	}
	return []string{bus, "virtio_console", "virtio_blk", "ext4", "nft_chain_nat", "nft_redir"}
}

// load loads modules, each after its dependencies. A module that is not in the initramfs is
// skipped: it is built in, or its absence shows when it is used.
func (m *modules) load(names ...string) error {
	for _, name := range names {
		needs, ok := m.needs[name]
		if !ok || m.done[name] {
			continue
		}
		m.done[name] = true
		if err := m.load(needs...); err != nil {
			return err
		}
		if err := m.insertModule(name); err != nil {
			return fmt.Errorf("%w: module %s: %w", atoll.ErrUnavailable, name, err)
		}
	}
	return nil
}

func (m *modules) insertModule(name string) error {
	f, err := os.Open(filepath.Join(m.dir, name+".ko"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
