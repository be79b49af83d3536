package image

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSmallHoles: a file with data in every sixteenth page needs no more space when it is unpacked, and has its content.
func TestSmallHoles(t *testing.T) {
	want := make([]byte, 4<<20+100)
	for at := 0; at < 4<<20; at += 64 << 10 {
		want[at+5000] = 'x'
	}
	want[len(want)-1] = 'y'
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := copySparse(f, bytes.NewReader(want), int64(len(want))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("another content, or %v", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 > 1<<20 {
		t.Errorf("it needs %d bytes", st.Blocks*512)
	}
}
