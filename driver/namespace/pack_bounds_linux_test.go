package namespace

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// TestPackedLinksAreBounded: programs inside choose how many files have several names, and how long those are.
func TestPackedLinksAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprint("f", i))
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Link(name, name+"-second")); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for used, want := range map[int]error{0: nil, maxLinkBytes - 150: atoll.ErrQuota} {
		p := &packer{w: io.Discard, tw: tar.NewWriter(io.Discard), whole: true, links: make(map[[2]uint64]string), linkBytes: used, buf: make([]byte, 1<<10)}
		if err := p.packDir(t.Context(), fd, "."); !errors.Is(err, want) {
			t.Errorf("with %d bytes used: error %v, want %v", used, err, want)
		}
	}
}
