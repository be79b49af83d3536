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

// maxModule bounds a module, unpacked: the largest have 10 MiB.
const maxModule = 128 << 20

// module is one module of a kernel, as it is loaded.
type module struct {
	name  string
	needs []string // what must be loaded before, directly
	data  []byte   // an ELF file
}

// catalogue is what a directory of modules has.
type catalogue struct {
	kernel  Kernel
	builtin map[string]bool
	files   map[string]string // by name: the path below the directory, as modules.order has it
}

// readCatalogue reads the lists that come with every kernel. That of depmod is
// not needed: modules say themselves what they need, and who unpacks a package
// by hand has no such list.
func readCatalogue(k Kernel) (*catalogue, error) {
	c := &catalogue{kernel: k, builtin: map[string]bool{}, files: map[string]string{}}
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

// moduleName is what a module's file is called in lists of dependencies.
func moduleName(file string) string { return strings.ReplaceAll(fileName(file), "-", "_") }

// fileName is the name of a module's file without its endings.
func fileName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return name
}

// resolve returns modules and all that they need, each after what it needs.
// What is built in needs no file. Of may it returns those that the kernel has.
func (c *catalogue) resolve(want, may []string) ([]module, error) {
	r := resolution{catalogue: c, state: map[string]bool{}}
	for _, name := range want {
		if err := r.add(strings.ReplaceAll(name, "-", "_")); err != nil {
			return nil, err
		}
	}
	for _, name := range may {
		if name = strings.ReplaceAll(name, "-", "_"); !c.has(name) {
			continue
		}
		if err := r.add(name); err != nil {
			return nil, err
		}
	}
	return r.list, nil
}

func (c *catalogue) has(name string) bool { return c.builtin[name] || c.files[name] != "" }

// resolution is a list of modules that grows.
type resolution struct {
	*catalogue
	list  []module
	state map[string]bool // false: its dependencies are looked for; true: it is in the list
}

func (r *resolution) add(name string) error {
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
		return fmt.Errorf("%w: kernel %s (%s) has no module %s, which virtual machines need: use another kernel, as Debian's linux-image-cloud-amd64",
			atoll.ErrUnavailable, r.kernel.Release, r.kernel.Path, name)
	}
	r.state[name] = false
	m, soft, err := readModule(r.kernel.Modules, r.files[name])
	if err != nil {
		return fmt.Errorf("%w: module %s of kernel %s: %w", atoll.ErrUnavailable, name, r.kernel.Release, err)
	}
	for _, s := range soft {
		if s == crc32c.alias {
			s = crc32c.module
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

// crc32c is the one alias that matters among soft dependencies: modules ask the
// kernel's cryptography for the algorithm, and can't be loaded when nothing has it.
// Lists of aliases are depmod's, and not needed for one.
var crc32c = struct{ alias, module string }{"crc32c", "crc32c_generic"}

// readModule reads a module, packed or not, and what it says it needs: always,
// and softly, which is if the kernel has it.
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
		return m, nil, errors.New("it says nothing of itself: no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return m, nil, err
	}
	m.needs, soft = dependencies(info)
	return m, soft, nil
}

// dependencies reads what a module says of itself.
func dependencies(info []byte) (needs, soft []string) {
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
			soft = append(soft, softBefore(value)...)
		}
	}
	return needs, soft
}

// softBefore returns the modules that are to be loaded before, of
// "pre: a b post: c".
func softBefore(value string) (names []string) {
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

// readPacked reads a module, whose file may be packed, as its name then says.
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
