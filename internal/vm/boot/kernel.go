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
	Path    string // a bzImage, as in /boot, or a vmlinux
	Modules string // directory of its modules, like /lib/modules/RELEASE
	Release string // as uname -r prints it
}

// kernelPatterns are the paths of distributions' kernels; * is a release.
var kernelPatterns = []string{"/boot/vmlinuz-*", "/usr/lib/modules/*/vmlinuz", "/lib/modules/*/vmlinuz"}

// FindKernel returns the kernel at a path or, if path is empty, the newest readable kernel of this host
// that has modules. modules is its directory of modules; if it is empty, Find searches next to the
// kernel (../lib/modules) and in the directories of distributions. A missing file is
// [atoll.ErrUnavailable]; the error describes it.
func FindKernel(path, modules string) (Kernel, error) {
	if path != "" {
		return describeKernel(path, modules)
	}
	return findNewest(kernelPatterns)
}

// findNewest returns the kernel with the highest release among the files that match patterns.
func findNewest(patterns []string) (Kernel, error) {
	var found []Kernel
	var why []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern) // its only error is a bad pattern
		for _, p := range paths {
			k, err := describeKernel(p, "")
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
		return Kernel{}, fmt.Errorf("%w: no usable kernel for VMs: %s", atoll.ErrUnavailable, strings.Join(why, "; "))
	}
	return Kernel{}, fmt.Errorf("%w: no kernel for VMs: none matches %s. Install one (Debian, Ubuntu: apt-get install linux-image-cloud-amd64 or linux-image-virtual; Fedora: dnf install kernel-core) or name one (microvm.kernel, $ATOLL_MACHINE_KERNEL)",
		atoll.ErrUnavailable, strings.Join(patterns, ", "))
}

// describeKernel returns the kernel at a path.
func describeKernel(path, modules string) (Kernel, error) {
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
	release, err := readRelease(f)
	if err != nil {
		return Kernel{}, fmt.Errorf("%w: kernel %s: %w", atoll.ErrUnavailable, path, err)
	}
	k := Kernel{Path: path, Release: release}
	k.Modules, err = findModules(path, release, modules)
	return k, err
}

// findModules returns the directory of a kernel's modules.
func findModules(path, release, given string) (string, error) {
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

// Fields of the header of a bzImage, from the boot protocol of x86
// (Documentation/arch/x86/boot.rst).
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
	kernel64        = 1      // flag in xloadflags: a 64-bit kernel
	protocolPayload = 0x0208 // the first version with a payload
)

var (
	elfMagic = []byte("\x7fELF")
	linux    = []byte("Linux version ")
)

// readRelease returns the release of a kernel, and checks that it is one for this architecture.
func readRelease(f *os.File) (string, error) {
	head := make([]byte, headerSize)
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", fmt.Errorf("it is no kernel: %w", err)
	}
	if bytes.HasPrefix(head, elfMagic) {
		return readReleaseELF(f)
	}
	if err := checkHeader(head); err != nil {
		return "", err
	}
	text := make([]byte, 256)
	n, err := f.ReadAt(text, int64(binary.LittleEndian.Uint16(head[offReleaseAt:]))+0x200)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return parseRelease(text[:n])
}

// checkHeader returns an error if the header of a bzImage is wrong.
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

// readReleaseELF finds the release in the banner that every kernel contains.
func readReleaseELF(f *os.File) (string, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxVmlinux))
	if err != nil {
		return "", err
	}
	_, after, ok := bytes.Cut(data, linux)
	for ok && (len(after) == 0 || after[0] == '%') { // a format string, not the banner
		_, after, ok = bytes.Cut(after, linux)
	}
	if !ok {
		return "", errors.New("it is no kernel: an ELF file without the banner of Linux")
	}
	return parseRelease(after[:min(len(after), 256)])
}

// parseRelease returns the release at the beginning of a text. It is safe as part of a path.
func parseRelease(text []byte) (string, error) {
	word := strings.FieldsFunc(string(text), func(r rune) bool { return r <= ' ' || r == 0x7f })
	if len(word) == 0 || strings.ContainsAny(word[0], "/\x00") || !(word[0][0] >= '0' && word[0][0] <= '9') {
		return "", errors.New("it has no release")
	}
	return word[0], nil
}

// compareReleases compares releases by their numbers.
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

// leadingNumber splits off a leading number; -1 if there is none.
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
