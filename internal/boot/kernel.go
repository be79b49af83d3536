package boot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Kernel is a kernel of a distribution, with its modules.
type Kernel struct {
	Path    string // of a bzImage, as in /boot, or of a vmlinux
	Modules string // directory of its modules, as /lib/modules/RELEASE
	Release string // as uname -r tells it inside
}

// places are where distributions put kernels; * is a release.
var places = []string{"/boot/vmlinuz-*", "/usr/lib/modules/*/vmlinuz", "/lib/modules/*/vmlinuz"}

// Find returns the kernel at a path, or, if path is empty, the newest one of
// this machine that has modules and can be read. modules names its directory of
// modules; if that is empty it is looked for beside the kernel (../lib/modules
// of its directory) and where distributions have it. What is missing is
// [atoll.ErrUnavailable], with what would be right.
func Find(path, modules string) (Kernel, error) {
	if path != "" {
		return named(path, modules)
	}
	return newest(places)
}

// newest returns the kernel with the highest release of those that match patterns.
func newest(patterns []string) (Kernel, error) {
	var found []Kernel
	var why []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern) // its only error is a bad pattern
		for _, p := range paths {
			k, err := named(p, "")
			if err != nil {
				why = append(why, err.Error())
				continue
			}
			found = append(found, k)
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b Kernel) int { return compareReleases(a.Release, b.Release) }), nil
	}
	if len(why) > 0 {
		return Kernel{}, fmt.Errorf("%w: no kernel for virtual machines that can be used: %s", atoll.ErrUnavailable, strings.Join(why, "; "))
	}
	return Kernel{}, fmt.Errorf("%w: no kernel for virtual machines: none matches %s. Install one (Debian, Ubuntu: apt-get install linux-image-cloud-amd64 or linux-image-virtual; Fedora: dnf install kernel-core) or name one (microvm.kernel, $ATOLL_MACHINE_KERNEL)",
		atoll.ErrUnavailable, strings.Join(patterns, ", "))
}

// named describes the kernel at a path.
func named(path, modules string) (Kernel, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Kernel{}, err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Kernel{}, fmt.Errorf("%w: kernel %s: only root may read it: make it readable (chmod +r %s) or name a copy of it", atoll.ErrUnavailable, path, path)
	case err != nil:
		return Kernel{}, fmt.Errorf("%w: kernel: %w", atoll.ErrUnavailable, err)
	}
	defer f.Close()
	release, err := releaseOf(f)
	if err != nil {
		return Kernel{}, fmt.Errorf("%w: kernel %s: %w", atoll.ErrUnavailable, path, err)
	}
	k := Kernel{Path: path, Release: release}
	k.Modules, err = modulesOf(path, release, modules)
	return k, err
}

// modulesOf finds the modules of a kernel.
func modulesOf(path, release, given string) (string, error) {
	tries := []string{given}
	if given == "" {
		tries = []string{
			filepath.Join(filepath.Dir(filepath.Dir(path)), "lib/modules", release),
			filepath.Join("/lib/modules", release),
			filepath.Join("/usr/lib/modules", release),
		}
	}
	for _, dir := range tries {
		if _, err := os.Stat(filepath.Join(dir, "modules.builtin")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("%w: kernel %s: its modules (of release %s) are in none of %s: no modules.builtin there", atoll.ErrUnavailable, path, release, strings.Join(tries, ", "))
}

// The header of a bzImage, by the boot protocol of x86 (Documentation/arch/x86/boot.rst).
const (
	headerSize      = 0x268
	offBootFlag     = 0x1fe
	offMagic        = 0x202
	offVersion      = 0x206
	offReleaseAt    = 0x20e
	offSetupSectors = 0x1f1
	offXLoadFlags   = 0x236
	offPayload      = 0x248
	offPayloadSize  = 0x24c
	kernel64        = 1      // of xloadflags: it is for 64 bits
	protocolPayload = 0x0208 // the first with a payload
)

var (
	elfMagic = []byte("\x7fELF")
	linux    = []byte("Linux version ")
)

// releaseOf reads what a kernel calls itself, and checks that it is one of this
// machine's kind.
func releaseOf(f *os.File) (string, error) {
	head := make([]byte, headerSize)
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", fmt.Errorf("it is no kernel: %w", err)
	}
	if bytes.HasPrefix(head, elfMagic) {
		return releaseOfELF(f)
	}
	if err := checkHeader(head); err != nil {
		return "", err
	}
	text := make([]byte, 256)
	n, err := f.ReadAt(text, int64(binary.LittleEndian.Uint16(head[offReleaseAt:]))+0x200)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return firstWord(text[:n])
}

// checkHeader says what is wrong with the header of a bzImage.
func checkHeader(head []byte) error {
	switch {
	case bytes.HasPrefix(head[0x38:], []byte("ARM\x64")):
		return errors.New("it is for 64-bit ARM: want one for x86_64")
	case binary.LittleEndian.Uint16(head[offBootFlag:]) != 0xaa55 || string(head[offMagic:offMagic+4]) != "HdrS":
		return errors.New("it is no kernel: neither a bzImage nor an ELF file")
	case binary.LittleEndian.Uint16(head[offVersion:]) < protocolPayload:
		return errors.New("it is older than Linux 2.6.26")
	case binary.LittleEndian.Uint16(head[offXLoadFlags:])&kernel64 == 0:
		return errors.New("it is for 32 bits: want one for x86_64")
	}
	return nil
}

// releaseOfELF looks for the banner that every kernel has.
func releaseOfELF(f *os.File) (string, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxVmlinux))
	if err != nil {
		return "", err
	}
	_, after, ok := bytes.Cut(data, linux)
	for ok && (len(after) == 0 || after[0] == '%') { // a format, not the banner
		_, after, ok = bytes.Cut(after, linux)
	}
	if !ok {
		return "", errors.New("it is no kernel: an ELF file without the banner of Linux")
	}
	return firstWord(after[:min(len(after), 256)])
}

// firstWord returns a release out of what begins with it. It becomes part of a path.
func firstWord(text []byte) (string, error) {
	word := strings.FieldsFunc(string(text), func(r rune) bool { return r <= ' ' || r == 0x7f })
	if len(word) == 0 || strings.ContainsAny(word[0], "/\x00") || !(word[0][0] >= '0' && word[0][0] <= '9') {
		return "", errors.New("it does not say its release")
	}
	return word[0], nil
}

// compareReleases orders releases as people do: by their numbers.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		x, restA := leadingNumber(a)
		y, restB := leadingNumber(b)
		if x >= 0 && y >= 0 {
			if x != y {
				return x - y
			}
			a, b = restA, restB
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// leadingNumber cuts a number off; it is -1 if there is none.
func leadingNumber(s string) (int, string) {
	i := 0
	for i < len(s) && i < 9 && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	n, err := strconv.Atoi(s[:i])
	if err != nil {
		return -1, s
	}
	return n, s[i:]
}
