package ext4

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// trees returns the trees that benchmarks make file systems of: busybox alone, and
// $ATOLL_BENCH_TREE, such as a root of a Debian, or this host's /usr/lib.
func trees(b *testing.B) map[string]string {
	small := b.TempDir()
	if err := os.Mkdir(filepath.Join(small, "bin"), 0o755); err != nil {
		b.Fatal(err)
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		b.Skip("no /bin/busybox")
	}
	if err := os.WriteFile(filepath.Join(small, "bin/busybox"), program, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"sh", "ls", "cat", "cp", "mv", "rm", "mount"} {
		if err := os.Symlink("busybox", filepath.Join(small, "bin", name)); err != nil {
			b.Fatal(err)
		}
	}
	large := os.Getenv("ATOLL_BENCH_TREE")
	if large == "" {
		large = "/usr/lib"
	}
	return map[string]string{"busybox": small, "large": large}
}

// BenchmarkDirectory compares with mke2fs -d, which makes the same from the same tree.
func BenchmarkDirectory(b *testing.B) {
	mke2fs := findProgram(b, "mke2fs")
	for name, tree := range trees(b) {
		b.Run(name+"/atoll", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f, err := os.Create(filepath.Join(b.TempDir(), "fs"))
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Truncate(64 << 30); err != nil {
					b.Fatal(err)
				}
				w, err := New(f, Options{Size: 64 << 30})
				if err != nil {
					b.Fatal(err)
				}
				d, err := os.Open(tree)
				if err != nil {
					b.Fatal(err)
				}
				if err := w.AddDir(b.Context(), d, Tree{}); err != nil {
					b.Fatal(err)
				}
				u, err := w.Finish(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(u.Content)/(1<<20), "MB")
				_ = d.Close()
				_ = f.Close()
				_ = os.Remove(f.Name())
			}
		})
		b.Run(name+"/mke2fs", func(b *testing.B) {
			for b.Loop() {
				file := filepath.Join(b.TempDir(), "fs")
				out, err := exec.Command(mke2fs, "-q", "-F", "-t", "ext4", "-d", tree, file, "64G").CombinedOutput()
				if err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				_ = os.Remove(file)
			}
		})
	}
}
