package agent

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzLines compares lines with those of a simple split, however the text is
// cut into writes.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2, 10)
	f.Add([]byte("\r\n\n\n"), 1, 1)
	f.Add([]byte("longer than allowed\nnot\n"), 3, 4)
	f.Fuzz(func(t *testing.T, text []byte, step, most int) {
		step, most = max(1, step&0xff), max(1, most&0xff)
		lines := make(chan line, bytes.Count(text, []byte("\n"))+1)
		w := newLineWriter(most, lines, nil)
		for i := 0; i < len(text); i += step {
			if n, err := w.Write(text[i:min(i+step, len(text))]); err != nil || n != min(step, len(text)-i) {
				t.Fatalf("Write: %d %v", n, err)
			}
		}
		w.flushLast()
		close(lines)
		want := bytes.Split(text, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		i := 0
		for l := range lines {
			if i >= len(want) {
				t.Fatalf("a line too many: %q", l.data)
			}
			whole := want[i]
			switch {
			case len(whole) <= most && (l.fullLen != 0 || !bytes.Equal(l.data, bytes.TrimSuffix(whole, []byte("\r")))):
				t.Errorf("line %d is %q (%d), want %q", i, l.data, l.fullLen, whole)
			case len(whole) > most && (l.fullLen != int64(len(whole)) || !bytes.Equal(l.data, bytes.TrimSuffix(whole[:most], []byte("\r")))):
				t.Errorf("line %d was cut to %q of %d, want %q of %d", i, l.data, l.fullLen, whole[:most], len(whole))
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%d lines, want %d", i, len(want))
		}
	})
}

// FuzzFileName makes names of whatever an attachment is called.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a.txt", "../../x", "..", ".", "/", `\\x\y`, "\x00", "a\u202eb", strings.Repeat("é", 300), strings.Repeat("x.", 200), ".placed", "-rf"} {
		f.Add(s, "image/png")
	}
	f.Fuzz(func(t *testing.T, name, media string) {
		got := safeFileName(name, media)
		if got == "" || got != path.Base(got) || got[0] == '.' || got[0] == '-' || len(got) > maxNameLen || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", name, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q becomes %q, which has %U", name, got, r)
			}
		}
		taken := map[string]bool{got: true}
		if second := reserveName(got, taken); second == got || second != path.Base(second) || !taken[second] {
			t.Errorf("%q twice becomes %q", got, second)
		}
	})
}

func TestInput(t *testing.T) {
	in := newInput()
	in.add([]byte("one "))
	in.add(nil)
	in.add([]byte("two"))
	if !in.close() || in.close() {
		t.Error("close does not say whether it was open")
	}
	in.add([]byte("late"))
	if b, err := io.ReadAll(in); err != nil || string(b) != "one two" {
		t.Errorf("%q %v", b, err)
	}
	in = newInput()
	if !in.add(make([]byte, maxUnread)) || in.add([]byte("x")) {
		t.Error("the bound is not where it should be")
	}
	read := make(chan error)
	in = newInput()
	go func() {
		_, err := in.Read(make([]byte, 1))
		read <- err
	}()
	in.discard()
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Errorf("a reader of a process that is gone: %v", err)
	}
}

func TestTail(t *testing.T) {
	var all []byte
	var w tail
	for i := range 3000 {
		b := bytes.Repeat([]byte{byte('a' + i%26)}, i%700)
		all = append(all, b...)
		if n, err := w.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
		if want := all[max(0, len(all)-tailSize):]; !bytes.Equal(w.lastBytes(), want) {
			t.Fatalf("after %d bytes the tail is another", len(all))
		}
		if cap(w.data) > 4*tailSize {
			t.Fatalf("it holds %d bytes", cap(w.data))
		}
	}
	huge := bytes.Repeat([]byte("0123456789"), 100_000)
	_, _ = w.Write(huge)
	if !bytes.Equal(w.lastBytes(), huge[len(huge)-tailSize:]) {
		t.Error("a write that is longer than the tail")
	}
}
