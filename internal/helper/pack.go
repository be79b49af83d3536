package helper

import (
	"archive/zip"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Pack appends helpers to a program as a zip archive, where the program's Finder finds them.
func Pack(program string, helpers ...string) (err error) {
	out, err := os.OpenFile(program, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	size, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	z := zip.NewWriter(out)
	z.SetOffset(size)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, path := range helpers {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.Base(path), Method: zip.Deflate, Comment: hex.EncodeToString(sum[:])})
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}
