package shellexec

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// split gives marks a text in pieces of a size and returns what came through.
func split(text string, size int) (string, []string) {
	var out bytes.Buffer
	var seen []string
	m := newMarkFilter("TOKEN", &out, func(s string) { seen = append(seen, s) })
	for c := range slices.Chunk([]byte(text), size) {
		_, _ = m.Write(c) // never fails
	}
	return out.String(), seen
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		text, out string
		marks     []string
	}{
		{"plain", "plain", nil},
		{"\036TOKENr;", "", []string{"r"}},
		{"a\036TOKENp12;b\036TOKENe0s;", "ab", []string{"p12", "e0s"}},
		{"a\036\036TOKENe1;", "a\036", []string{"e1"}},
		{"a\036TOKE\036TOKENe1;", "a\036TOKE", []string{"e1"}},
		{"\036TOKEN\036TOKENe1;", "", []string{"\036TOKENe1"}}, // only a hostile command prints this
		{"\036TOKEM;", "\036TOKEM;", nil},
		{"\036TOKEN" + strings.Repeat("x", 100) + "\036TOKENe3;", "\036TOKEN" + strings.Repeat("x", 100), []string{"e3"}},
	} {
		for size := 1; size <= len(c.text); size++ {
			out, marks := split(c.text, size)
			if out != c.out || !slices.Equal(marks, c.marks) {
				t.Fatalf("%q in pieces of %d: %q and %q, want %q and %q", c.text, size, out, marks, c.out, c.marks)
			}
		}
	}
}

func FuzzMarks(f *testing.F) {
	f.Add("a\036TOKENe0;b", 3)
	f.Add("\036TOKEN\036\036TOKEN;;", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 {
			return
		}
		text += "\036TOKENe0;" // so that nothing is held back
		one, all := split(text, len(text))
		two, pieces := split(text, size)
		if one != two || !slices.Equal(all, pieces) {
			t.Errorf("%q: whole %q %q, in pieces of %d %q %q", text, one, all, size, two, pieces)
		}
		if !strings.Contains(text[:len(text)-len("\036TOKENe0;")], "\036TOKEN") && one+"\036TOKENe0;" != text {
			t.Errorf("%q came as %q", text, one)
		}
	})
}
