package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// needed are the modules without which no machine works.
var needed = []string{"virtio_blk", "virtio_console", "ext4", "nf_tables", "nft_chain_nat", "nft_redir", "nf_conntrack"}

// useful are modules without which something cannot be had: one of the buses,
// networks, shares, machines inside.
var useful = []string{"virtio_mmio", "virtio_pci", "virtio_net", "virtiofs", "9p", "9pnet_virtio", "virtio_rng", "af_packet", "overlay", "kvm_intel", "kvm_amd"}

// Where an initramfs has the modules. ModuleList has a line for each: its name,
// and the names of those that must be loaded before it.
const (
	ModuleDir  = "/modules"
	ModuleList = ModuleDir + "/list"
)

// Options say what machines are to find inside.
type Options struct {
	Guest string   // path of atoll-guest, a static program
	Want  []string // modules that must be there, besides those that every machine needs
}

// Files is what a machine starts from.
type Files struct {
	Kernel  string `json:"kernel"`  // path of an ELF file with a PVH entry
	Initrd  string `json:"initrd"`  // path of a cpio archive, not packed
	Release string `json:"release"` // of the kernel
	// Digest is of the contents of both, in hexadecimal: what was saved of a
	// machine fits none of another digest.
	Digest string `json:"digest"`
	// Modules are the names, with underscores, of those modules that the kernel has, as
	// files or built in: of those that were wanted, and of virtio_mmio,
	// virtio_pci, virtio_net, virtiofs, 9p, 9pnet_virtio, virtio_rng,
	// overlay, kvm_intel and kvm_amd, which not every kernel has.
	Modules []string `json:"modules"`
}

// Has reports whether a module is there.
func (f Files) Has(module string) bool {
	return slices.Contains(f.Modules, strings.ReplaceAll(module, "-", "_"))
}

// Prepare makes the files that machines with a kernel start from, below a
// directory, which it makes. What was made for the same kernel and guest is not
// made again; what was not used for 30 days is removed. progress is told what
// is done where it takes longer than a moment; it may be nil. Several processes
// may prepare at once. What a kernel lacks is [atoll.ErrUnavailable].
func Prepare(ctx context.Context, k Kernel, o Options, dir string, progress func(text string)) (Files, error) {
	if progress == nil {
		progress = func(string) {}
	}
	ticket, err := ticketOf(k, o)
	if err != nil {
		return Files{}, err
	}
	path := filepath.Join(dir, ticket+".json")
	if f, ok := known(path); ok {
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, err
	}
	f, err := build(ctx, k, o, dir, progress)
	if err != nil {
		return Files{}, err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return Files{}, err
	}
	if err := whole.Replace(path, text, 0o600); err != nil {
		return Files{}, err
	}
	return f, clean(dir, path, time.Now().Add(-unused))
}

// unused is how long files are kept that nobody asks for.
const unused = 30 * 24 * time.Hour

// ticketOf names the files that are made of these sources, without reading
// them: by what the file system says of them, which changes when they do.
func ticketOf(k Kernel, o Options) (string, error) {
	h := sha256.New()
	for _, path := range []string{k.Path, filepath.Join(k.Modules, "modules.order"), filepath.Join(k.Modules, "modules.builtin"), o.Guest} {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("%w: what machines start from: %w", atoll.ErrUnavailable, err)
		}
		fmt.Fprintf(h, "%q %d %d %s\n", path, info.Size(), info.ModTime().UnixNano(), stampOf(info))
	}
	fmt.Fprintf(h, "%q %q %q %q %d\n", k, o.Want, needed, useful, formVersion)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// formVersion changes when the same sources make other files.
const formVersion = 2

// known returns what was made before, and notes that it is used.
func known(path string) (Files, bool) {
	var f Files
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &f) != nil {
		return f, false
	}
	for _, p := range []string{f.Kernel, f.Initrd} {
		if _, err := os.Stat(p); err != nil {
			return f, false
		}
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // a home that can't be written to does as well
	return f, true
}

// build makes both files.
func build(ctx context.Context, k Kernel, o Options, dir string, progress func(string)) (Files, error) {
	progress("unpacking kernel " + k.Release)
	image, err := os.ReadFile(k.Path)
	if err != nil {
		return Files{}, err
	}
	vmlinux, err := extract(image)
	if err != nil {
		return Files{}, fmt.Errorf("%w: kernel %s: %w", atoll.ErrUnavailable, k.Path, err)
	}
	if err := context.Cause(ctx); err != nil {
		return Files{}, err
	}
	progress("packing the modules of kernel " + k.Release)
	c, err := readCatalogue(k)
	if err != nil {
		return Files{}, err
	}
	modules, err := c.resolve(slices.Concat(needed, o.Want), useful)
	if err != nil {
		return Files{}, err
	}
	entries, err := initramfs(o.Guest, modules)
	if err != nil {
		return Files{}, err
	}
	f := Files{Release: k.Release}
	for _, name := range slices.Concat(needed, o.Want, useful) {
		if name = strings.ReplaceAll(name, "-", "_"); c.has(name) {
			f.Modules = append(f.Modules, name)
		}
	}
	all := sha256.New()
	f.Kernel, err = keep(dir, "vmlinux", all, func(w io.Writer) error { _, err := w.Write(vmlinux); return err })
	if err != nil {
		return Files{}, err
	}
	f.Initrd, err = keep(dir, "initrd", all, func(w io.Writer) error { return writeCPIO(w, entries) })
	f.Digest = hex.EncodeToString(all.Sum(nil))
	return f, err
}

// initramfs lists what a machine finds: process 1, and modules that it loads.
func initramfs(guest string, modules []module) ([]entry, error) {
	program, err := os.ReadFile(guest)
	if err != nil {
		return nil, err
	}
	if err := static(program); err != nil {
		return nil, fmt.Errorf("%w: guest %s: %w", atoll.ErrUnavailable, guest, err)
	}
	var list strings.Builder
	entries := []entry{{name: "init", mode: modeProgram, data: program}, {name: ModuleDir[1:], mode: modeDir}}
	for _, m := range modules {
		fmt.Fprintln(&list, strings.Join(append([]string{m.name}, m.needs...), " "))
		entries = append(entries, entry{name: ModuleDir[1:] + "/" + m.name + ".ko", mode: modeFile, data: m.data})
	}
	return append(entries, entry{name: ModuleList[1:], mode: modeFile, data: []byte(list.String())}), nil
}

// keep writes a file that is named by its content, which is also added to all.
func keep(dir, name string, all hash.Hash, write func(io.Writer) error) (path string, err error) {
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	own := sha256.New()
	err = write(io.MultiWriter(f, own, all))
	// QEMU reads it with another user's rights.
	if err = errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+"-"+hex.EncodeToString(own.Sum(nil)[:16]))
	return path, os.Rename(f.Name(), path)
}

// clean removes what was last used before a time, and files that then belong to
// nothing. A machine that runs has its files in memory.
func clean(dir, but string, before time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	var others []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			continue // another has removed it
		}
		old := info.ModTime().Before(before) && path != but
		switch {
		case filepath.Ext(path) == ".json" && !old:
			var f Files
			if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &f) == nil {
				used[f.Kernel], used[f.Initrd] = true, true
			}
		case old:
			others = append(others, path)
		}
	}
	for _, path := range others {
		if !used[path] {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
