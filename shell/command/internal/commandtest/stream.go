package commandtest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// HelloXz and HelloZstd are "hello\n", compressed by xz --x86 --lzma2 and by zstd.
const (
	HelloXz   = "\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x01\x04\x00\x21\x01\x16\x00\x0d\x86\x35\x1f\x01\x00\x05\x68\x65\x6c\x6c\x6f\x0a\x00\x00\x00\xa5\x60\x97\xf1\x94\xf6\xfd\xe0\x00\x01\x1e\x06\xc1\x2f\xa4\x1d\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a"
	HelloZstd = "\x28\xb5\x2f\xfd\x04\x58\x31\x00\x00\x68\x65\x6c\x6c\x6f\x0a\x53\x88\xbd\x91"
)

// XzOfDictionary returns an xz stream with a valid header of a block whose dictionary has the size of a
// code: 28 is 64 MiB, 40 is 4 GiB.
func XzOfDictionary(code byte) string {
	sum := func(b string) string {
		n := crc32.ChecksumIEEE([]byte(b))
		return b + string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	}
	return "\xfd7zXZ\x00" + sum("\x00\x00") + sum("\x02\x00\x21\x01"+string([]byte{code})+"\x00\x00\x00") + "\x00"
}

// XzZeros returns n zeros, compressed.
func XzZeros(tb testing.TB, n int) string {
	tb.Helper()
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err == nil {
		_, werr := w.Write([]byte(strings.Repeat("\x00", n)))
		err = errors.Join(werr, w.Close())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// ZstdZeros returns n zeros, compressed.
func ZstdZeros(tb testing.TB, n int) string {
	tb.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(w.EncodeAll(make([]byte, n), nil))
}
