package objectstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/atoll-sandbox/atoll"
)

func seal(t testing.TB, key, plain []byte, place string) []byte {
	t.Helper()
	s, err := NewSealer(bytes.NewReader(plain), key, place)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unseal(key []byte, place string, from io.Reader) ([]byte, error) {
	o, err := NewOpener(from, key, place)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(o)
}

// TestSealed: what was sealed comes back, whatever its size and however it is read.
func TestSealed(t *testing.T) {
	key := NewSealKey()
	for _, n := range []int{0, 1, sealChunk - 1, sealChunk, sealChunk + 1, 3 * sealChunk, 3*sealChunk + 7} {
		plain := bytes.Repeat([]byte{1, 2, 3}, n/3+1)[:n]
		sealed := seal(t, key, plain, "a")
		for what, r := range map[string]io.Reader{"whole": bytes.NewReader(sealed), "by bytes": iotest.OneByteReader(bytes.NewReader(sealed)), "EOF with data": iotest.DataErrReader(bytes.NewReader(sealed))} {
			got, err := unseal(key, "a", r)
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes, %s: %d bytes came back, %v", n, what, len(got), err)
			}
		}
	}
	if a, b := seal(t, key, []byte("x"), "a"), seal(t, NewSealKey(), []byte("x"), "a"); bytes.Equal(a, b) {
		t.Error("two keys seal alike")
	}
}

// TestSealedTampering: every change of a sealed object is found, and no byte after it is returned.
func TestSealedTampering(t *testing.T) {
	key := NewSealKey()
	plain := bytes.Repeat([]byte("0123456789abcdef"), 3*sealChunk/16)
	good := seal(t, key, plain, "a")
	const chunk = sealChunk + 16
	head := len(sealHeader)
	cut := func(parts ...[2]int) (b []byte) {
		for _, p := range parts {
			b = append(b, good[p[0]:p[1]]...)
		}
		return b
	}
	cases := map[string][]byte{
		"empty": {}, "only the header": good[:head], "no last chunk": good[:head+2*chunk], "no first chunk": cut([2]int{0, head}, [2]int{head + chunk, len(good)}),
		"chunks exchanged": cut([2]int{0, head}, [2]int{head + chunk, head + 2*chunk}, [2]int{head, head + chunk}, [2]int{head + 2*chunk, len(good)}),
		"a chunk twice":    cut([2]int{0, head + chunk}, [2]int{head, len(good)}), "more": append(slices.Clone(good), 'x'), "twice": append(slices.Clone(good), good...),
	}
	for at := 0; at < len(good); at += 997 {
		b := slices.Clone(good)
		b[at] ^= 0x80
		if got, err := unseal(key, "a", bytes.NewReader(b)); !errors.Is(err, errTampered) || !bytes.HasPrefix(plain, got) || len(got) > max(0, at-head)/chunk*sealChunk {
			t.Fatalf("byte %d was changed: %d bytes and %v", at, len(got), err)
		}
	}
	for what, b := range cases {
		if got, err := unseal(key, "a", bytes.NewReader(b)); !errors.Is(err, errTampered) || !bytes.HasPrefix(plain, got) {
			t.Errorf("%s: %d bytes and %v", what, len(got), err)
		}
	}
	for n := range len(good) {
		if n%997 != 0 {
			continue
		}
		if _, err := unseal(key, "a", bytes.NewReader(good[:n])); !errors.Is(err, errTampered) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := unseal(key, "b", bytes.NewReader(good)); !errors.Is(err, errTampered) {
		t.Errorf("another place: %v", err)
	}
	if _, err := unseal(NewSealKey(), "a", bytes.NewReader(good)); !errors.Is(err, errTampered) {
		t.Errorf("another key: %v", err)
	}
	broken := errors.New("broken")
	if _, err := unseal(key, "a", io.MultiReader(bytes.NewReader(good[:head+chunk+5]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	s, err := NewSealer(io.MultiReader(bytes.NewReader(plain[:sealChunk+5]), iotest.ErrReader(io.ErrUnexpectedEOF)), key, "a")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that fails is sealed as if it had ended: %d bytes, %v", len(b), err)
	}
}

// FuzzOpener feeds anything to an Opener.
func FuzzOpener(f *testing.F) {
	key := bytes.Repeat([]byte{7}, SealKeySize)
	plain := []byte("hello")
	f.Add([]byte(nil))
	f.Add([]byte(sealHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := unseal(key, "a", bytes.NewReader(b)); err == nil && !bytes.Equal(got, plain) {
			t.Errorf("%q was not sealed", got)
		}
	})
}

// TestKeys: keys that could leave the storage are refused, and links in a directory do not lead out of it.
func TestKeys(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	d := &Directory{Path: dir}
	for _, key := range []string{"", ".", "..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/", "a\x00b", "a b", "a~", ".hidden", "out/secret", strings.Repeat("a", 600)} {
		_, err := d.Put(t.Context(), key, strings.NewReader("x"))
		rc, gerr := d.Get(t.Context(), key)
		if gerr == nil {
			_ = rc.Close() // only its opening matters
		}
		if err == nil || gerr == nil {
			t.Errorf("key %.40q: put %v, get %v", key, err, gerr)
		}
		_ = d.Delete(t.Context(), key) // whatever it returns
	}
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(b) != "secret" {
		t.Errorf("the file outside: %q %v", b, err)
	}
	for _, text := range []string{"relative", "s3://", "s3://B", "s3://bucket/../x", "s3://a", "https://bucket"} {
		if err := CheckStorage(text); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("storage %q: %v", text, err)
		}
	}
	for _, text := range []string{"/a/b", "s3://bucket", "s3://my.bucket/a/b/"} {
		if err := CheckStorage(text); err != nil {
			t.Errorf("storage %q: %v", text, err)
		}
	}
}

// TestDirectory: an object appears whole or not at all, and a deletion removes what an interrupted Put has left.
func TestDirectory(t *testing.T) {
	d := &Directory{Path: filepath.Join(t.TempDir(), "new")}
	keys := func() (list []string) {
		for o, err := range d.List(t.Context(), "a/") {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, o.Key)
		}
		return list
	}
	if got := keys(); len(got) != 0 {
		t.Errorf("a directory that is missing has %v", got)
	}
	if _, err := d.Put(t.Context(), "a/b", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errTampered))); !errors.Is(err, errTampered) {
		t.Errorf("a source that fails: %v", err)
	}
	if _, err := d.Get(t.Context(), "a/b"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if n, err := d.Put(t.Context(), "a/b", strings.NewReader("whole")); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "a", "c"+partSuffix), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := keys(); !slices.Equal(got, []string{"a/b", "a/c"}) {
		t.Errorf("list %v", got)
	}
	for range 2 {
		for _, key := range []string{"a/b", "a/c"} {
			if err := d.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := keys(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
