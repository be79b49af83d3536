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
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// needed lists the modules that every VM needs.
var needed = []string{"virtio_blk", "virtio_console", "ext4", "nf_tables", "nft_chain_nat", "nft_redir", "nf_conntrack"}

// useful lists the modules for optional features: buses, networks, shares, nested VMs.
var useful = []string{"virtio_mmio", "virtio_pci", "virtio_net", "virtiofs", "9p", "9pnet_virtio", "virtio_rng", "af_packet", "overlay", "kvm_intel", "kvm_amd"}

// ModuleDir is the directory of the modules in an initramfs. Each line of ModuleList has the name
// of a module, and the names of those to load before it.
const (
	ModuleDir  = "/modules"
	ModuleList = ModuleDir + "/list"
)

// Options configure the boot files.
type Options struct {
	Guest           string   // path of atoll-guest, a static program
	RequiredModules []string // modules that must exist, besides those that every VM needs
}

// Files are the boot files of VMs.
type Files struct {
	Kernel  string `json:"kernel"`  // path of an ELF file with a PVH entry
	Initrd  string `json:"initrd"`  // path of an uncompressed cpio archive
	Release string `json:"release"` // of the kernel
	// Digest is the hexadecimal digest of both files. A saved VM can only be resumed with the same
	// digest.
	Digest string `json:"digest"`
	// Modules are the names, with underscores, of the modules that the kernel has as files or built
	// in: of those that were wanted, and of virtio_mmio, virtio_pci, virtio_net, virtiofs, 9p,
	// 9pnet_virtio, virtio_rng, overlay, kvm_intel and kvm_amd, which are optional.
	Modules []string `json:"modules"`
}

// Has reports whether the kernel has a module.
func (f Files) Has(module string) bool {
	return slices.Contains(f.Modules, strings.ReplaceAll(module, "-", "_"))
}

// Prepare makes the boot files for a kernel and a guest agent in a directory, which it creates.
// Existing files of the same kernel and guest are reused; files that were not used for 30 days are
// removed. progress gets a text for each long step; it may be nil. Several processes may call it at
// the same time. If the kernel lacks something, the error is [atoll.ErrUnavailable].
func Prepare(ctx context.Context, k Kernel, o Options, dir string, progress func(text string)) (Files, error) {
	if progress == nil {
		progress = func(string) {}
	}
	ticket, err := cacheKey(k, o)
	if err != nil {
		return Files{}, err
	}
	path := filepath.Join(dir, ticket+".json")
	if f, ok := loadCached(path); ok {
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, err
	}
	f, err := buildFiles(ctx, k, o, dir, progress)
	if err != nil {
		return Files{}, err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return Files{}, err
	}
	if err := atomicfile.Replace(path, text, 0o600); err != nil {
		return Files{}, err
	}
	return f, removeUnused(dir, path, time.Now().Add(-unusedAfter))
}

// unusedAfter is the age at which unused files are removed.
const unusedAfter = 30 * 24 * time.Hour

// cacheKey returns the key of the files made from these sources. It does not read these, but
// depends on their metadata, which changes when they do.
func cacheKey(k Kernel, o Options) (string, error) {
	h := sha256.New()
	for _, path := range []string{k.Path, filepath.Join(k.Modules, "modules.order"), filepath.Join(k.Modules, "modules.builtin"), o.Guest} {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("%w: boot files of VMs: %w", atoll.ErrUnavailable, err)
		}
		fmt.Fprintf(h, "%q %d %d %s\n", path, info.Size(), info.ModTime().UnixNano(), changeStamp(info))
	}
	fmt.Fprintf(h, "%q %q %q %q %d\n", k, o.RequiredModules, needed, useful, formVersion)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// formVersion changes when the same sources result in other files.
const formVersion = 2

// loadCached returns files that were made before, and marks them as used.
func loadCached(path string) (Files, bool) {
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
	_ = os.Chtimes(path, now, now) // works in a read-only directory too
	return f, true
}

// buildFiles makes both files.
func buildFiles(ctx context.Context, k Kernel, o Options, dir string, progress func(string)) (Files, error) {
	progress("unpacking kernel " + k.Release)
	image, err := os.ReadFile(k.Path)
	if err != nil {
		return Files{}, err
	}
	vmlinux, err := extractVmlinux(image)
	if err != nil {
		return Files{}, fmt.Errorf("%w: kernel %s: %w", atoll.ErrUnavailable, k.Path, err)
	}
	if err := context.Cause(ctx); err != nil {
		return Files{}, err
	}
	progress("packing the modules of kernel " + k.Release)
	c, err := readModuleIndex(k)
	if err != nil {
		return Files{}, err
	}
	modules, err := c.resolveModules(slices.Concat(needed, o.RequiredModules), useful)
	if err != nil {
		return Files{}, err
	}
	entries, err := listInitramfs(o.Guest, modules)
	if err != nil {
		return Files{}, err
	}
	f := Files{Release: k.Release}
	for _, name := range slices.Concat(needed, o.RequiredModules, useful) {
		if name = strings.ReplaceAll(name, "-", "_"); c.hasModule(name) {
			f.Modules = append(f.Modules, name)
		}
	}
	all := sha256.New()
	f.Kernel, err = writeByDigest(dir, "vmlinux", all, func(w io.Writer) error { _, err := w.Write(vmlinux); return err })
	if err != nil {
		return Files{}, err
	}
	f.Initrd, err = writeByDigest(dir, "initrd", all, func(w io.Writer) error { return writeCPIO(w, entries) })
	f.Digest = hex.EncodeToString(all.Sum(nil))
	return f, err
}

// listInitramfs returns the entries of the initramfs: process 1, and the modules that it loads.
func listInitramfs(guest string, modules []module) ([]entry, error) {
	program, err := os.ReadFile(guest)
	if err != nil {
		return nil, err
	}
	if err := checkStatic(program); err != nil {
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

// writeByDigest writes a file whose name has the digest of its content, and adds the content to
// all.
func writeByDigest(dir, name string, all hash.Hash, write func(io.Writer) error) (path string, err error) {
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
	// QEMU reads it as another user.
	if err = errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	path = filepath.Join(dir, name+"-"+hex.EncodeToString(own.Sum(nil)[:16]))
	return path, os.Rename(f.Name(), path)
}

// removeUnused removes files that were last used before a time, except one. A running VM has its
// files in memory.
func removeUnused(dir, but string, before time.Time) error {
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
			continue // another process has removed it
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
