package boot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/atoll-sandbox/atoll"
)

// maxModule is the size limit of a decompressed module: the largest have 10 MiB.
const maxModule = 128 << 20

// module is a kernel module to load.
type module struct {
	name  string
	needs []string // direct dependencies, to load before
	data  []byte   // ELF file
}

// moduleIndex lists the modules in a directory.
type moduleIndex struct {
	kernel  Kernel
	builtin map[string]bool
	files   map[string]string // by name: the path below the directory, as in modules.order
}

// readModuleIndex reads the lists that come with every kernel. The list of depmod is not needed,
// and is missing when a package was unpacked by hand: modules contain their own dependencies.
func readModuleIndex(k Kernel) (*moduleIndex, error) {
	c := &moduleIndex{kernel: k, builtin: map[string]bool{}, files: map[string]string{}}
	err := eachLine(filepath.Join(k.Modules, "modules.builtin"), func(p string) { c.builtin[moduleName(p)] = true })
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(k.Modules, "modules.order"), func(p string) { c.files[moduleName(p)] = p })
	return c, err
}

func eachLine(file string, do func(string)) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("%w: modules of the kernel: %w", atoll.ErrUnavailable, err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		if line := in.Text(); line != "" && filepath.IsLocal(line) {
			do(line)
		}
	}
	return in.Err()
}

// moduleName returns the name of a module from its file, as lists of dependencies have it.
func moduleName(file string) string { return strings.ReplaceAll(fileName(file), "-", "_") }

// fileName returns the name of a module's file without its extensions.
func fileName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return name
}

// resolveModules returns modules and their dependencies, each after its dependencies. Built-in
// modules need no file. Of the optional ones in may, it returns those that the kernel has.
func (c *moduleIndex) resolveModules(want, may []string) ([]module, error) {
	r := resolver{moduleIndex: c, state: map[string]bool{}}
	for _, name := range want {
		if err := r.add(strings.ReplaceAll(name, "-", "_")); err != nil {
			return nil, err
		}
	}
	for _, name := range may {
		if name = strings.ReplaceAll(name, "-", "_"); !c.hasModule(name) {
			continue
		}
		if err := r.add(name); err != nil {
			return nil, err
		}
	}
	return r.list, nil
}

func (c *moduleIndex) hasModule(name string) bool { return c.builtin[name] || c.files[name] != "" }

// resolver collects modules in dependency order.
type resolver struct {
	*moduleIndex
	list  []module
	state map[string]bool // false: its dependencies are being resolved; true: it is in the list
}

func (r *resolver) add(name string) error {
	if r.builtin[name] {
		return nil
	}
	if done, ok := r.state[name]; ok {
		if !done {
			return fmt.Errorf("module %s of kernel %s needs itself", name, r.kernel.Release)
		}
		return nil
	}
	if r.files[name] == "" {
		return fmt.Errorf("%w: kernel %s (%s) has no module %s, which VMs need: use another kernel, such as Debian's linux-image-cloud-amd64",
			atoll.ErrUnavailable, r.kernel.Release, r.kernel.Path, name)
	}
	r.state[name] = false
	m, soft, err := readModule(r.kernel.Modules, r.files[name])
	if err != nil {
		return fmt.Errorf("%w: module %s of kernel %s: %w", atoll.ErrUnavailable, name, r.kernel.Release, err)
	}
	for _, s := range soft {
		if s == crc32cAlias.alias {
			s = crc32cAlias.module
		}
		if _, known := r.state[s]; !known && r.files[s] != "" && !slices.Contains(m.needs, s) {
			m.needs = append(m.needs, s)
		}
	}
	m.needs = slices.DeleteFunc(m.needs, func(n string) bool { return r.builtin[n] })
	for _, n := range m.needs {
		if err := r.add(n); err != nil {
			return err
		}
	}
	r.list = append(r.list, m)
	r.state[name] = true
	return nil
}

// crc32cAlias is the only alias that matters in soft dependencies: modules request the algorithm
// from the kernel's cryptography, and can't be loaded if nothing implements it. So the list of
// aliases, which depmod makes, is not needed.
var crc32cAlias = struct{ alias, module string }{"crc32c", "crc32c_generic"}

// readModule reads a module, which may be compressed, and its dependencies: required ones, and soft
// ones, which are loaded if the kernel has them.
func readModule(dir, file string) (m module, soft []string, err error) {
	m = module{name: moduleName(file)}
	if m.data, err = readPacked(dir, path.Join(path.Dir(file), fileName(file)+".ko")); err != nil {
		return m, nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(m.data))
	if err != nil {
		return m, nil, err
	}
	if f.Machine != elf.EM_X86_64 {
		return m, nil, fmt.Errorf("it is for %s: want one for x86_64", f.Machine)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return m, nil, errors.New("it has no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return m, nil, err
	}
	m.needs, soft = parseDependencies(info)
	return m, soft, nil
}

// parseDependencies parses the dependencies in a module's .modinfo.
func parseDependencies(info []byte) (needs, soft []string) {
	for line := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "depends":
			for name := range strings.SplitSeq(value, ",") {
				if name != "" {
					needs = append(needs, moduleName(name))
				}
			}
		case "softdep":
			soft = append(soft, parseSoftDeps(value)...)
		}
	}
	return needs, soft
}

// parseSoftDeps returns the modules to load before, of a text like "pre: a b post: c".
func parseSoftDeps(value string) (names []string) {
	before := false
	for word := range strings.FieldsSeq(value) {
		switch {
		case strings.HasSuffix(word, ":"):
			before = word == "pre:"
		case before:
			names = append(names, moduleName(word))
		}
	}
	return names
}

// readPacked reads a module's file, which may be compressed as its extension says.
func readPacked(dir, file string) ([]byte, error) {
	for _, suffix := range []string{"", ".zst", ".xz", ".gz"} {
		f, err := os.Open(filepath.Join(dir, file+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, err := readModuleFile(f, suffix)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file+suffix, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%s is not in %s, neither plain nor as .zst, .xz or .gz", file, dir)
}

func readModuleFile(f io.Reader, suffix string) ([]byte, error) {
	var r io.Reader
	var err error
	switch suffix {
	case ".zst":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(f, zstd.WithDecoderMaxMemory(maxModule), zstd.WithDecoderConcurrency(1)); err == nil {
			defer d.Close()
			r = d
		}
	case ".xz":
		r, err = xz.NewReader(f, 1<<26)
	case ".gz":
		r, err = gzip.NewReader(f)
	default:
		r = f
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("it has more than %d bytes", maxModule)
	}
	return data, err
}
