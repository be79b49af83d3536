package guest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"
)

const gigabyte = 1 << 30

// pattern is bytes without end that are not zero.
type pattern struct{}

func (pattern) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i) | 1
	}
	return len(p), nil
}

func BenchmarkFileIn(b *testing.B) {
	l, dir := linked(b, &Server{}), b.TempDir()
	b.SetBytes(gigabyte)
	for b.Loop() {
		must(b, l.WriteFile(b.Context(), dir+"/f", io.LimitReader(pattern{}, gigabyte), 0o600))
	}
}

// BenchmarkDiskIn is what BenchmarkFileIn is compared with.
func BenchmarkDiskIn(b *testing.B) {
	dir := b.TempDir()
	b.SetBytes(gigabyte)
	for b.Loop() {
		f, err := os.Create(dir + "/f")
		must(b, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(pattern{}, gigabyte), make([]byte, 64<<10))
		must(b, err)
		must(b, f.Close())
	}
}

func bigFile(b *testing.B, dir string) {
	f, err := os.Create(dir + "/f")
	must(b, err)
	_, err = io.CopyN(f, pattern{}, gigabyte)
	must(b, err)
	must(b, f.Close())
}

func BenchmarkFileOut(b *testing.B) {
	l, dir := linked(b, &Server{}), b.TempDir()
	bigFile(b, dir)
	b.SetBytes(gigabyte)
	for b.Loop() {
		rc, err := l.OpenFile(b.Context(), dir+"/f")
		must(b, err)
		n, err := io.Copy(io.Discard, rc)
		must(b, err)
		if n != gigabyte {
			b.Fatal(n)
		}
		must(b, rc.Close())
	}
}

// BenchmarkDiskOut is what BenchmarkFileOut is compared with.
func BenchmarkDiskOut(b *testing.B) {
	dir := b.TempDir()
	bigFile(b, dir)
	b.SetBytes(gigabyte)
	for b.Loop() {
		f, err := os.Open(dir + "/f")
		must(b, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 64<<10))
		must(b, err)
		must(b, f.Close())
	}
}

func manyFiles(b *testing.B) []byte {
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	content := bytes.Repeat([]byte("x"), 1000)
	for i := range 10_000 {
		must(b, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/f%d", i/100, i), Size: 1000, Mode: 0o644}))
		_, err := tw.Write(content)
		must(b, err)
	}
	must(b, tw.Close())
	return archive.Bytes()
}

func BenchmarkImport10000(b *testing.B) {
	l, dir, a := linked(b, &Server{}), b.TempDir(), manyFiles(b)
	i := 0
	for b.Loop() {
		i++
		must(b, l.Import(b.Context(), fmt.Sprintf("%s/%d", dir, i), bytes.NewReader(a)))
	}
}

func BenchmarkExport10000(b *testing.B) {
	l, dir, a := linked(b, &Server{}), b.TempDir(), manyFiles(b)
	must(b, l.Import(b.Context(), dir+"/d", bytes.NewReader(a)))
	for b.Loop() {
		rc, err := l.Export(b.Context(), dir+"/d")
		must(b, err)
		_, err = io.Copy(io.Discard, rc)
		must(b, err)
		must(b, rc.Close())
	}
}

func BenchmarkStatFile(b *testing.B) {
	l := linked(b, &Server{})
	for b.Loop() {
		_, err := l.StatFile(b.Context(), "/usr/bin/env")
		must(b, err)
	}
}
