package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// moduleDir is where the initramfs has modules, as internal/boot puts them: a file
// for each, and a list of what each needs.
const moduleDir = "/modules"

// modules are those that came with this process.
type modules struct {
	dir   string
	needs map[string][]string // by name; what is built in is not here
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

// atBoot are the modules that every machine needs: its bus, its devices, and
// what leads connections to the gate.
func atBoot() []string {
	bus := "virtio_mmio"
	if found, err := filepath.Glob("/sys/bus/pci/devices/*"); err == nil && len(found) > 0 {
		bus = "virtio_pci"
	}
	return []string{bus, "virtio_console", "virtio_blk", "ext4", "nft_chain_nat", "nft_redir"}
}

// load loads modules, each after what it needs. What is not among those that
// came is built in, or missing, which is seen when it is used.
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
		if err := m.insert(name); err != nil {
			return fmt.Errorf("%w: module %s: %w", atoll.ErrUnavailable, name, err)
		}
	}
	return nil
}

func (m *modules) insert(name string) error {
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
