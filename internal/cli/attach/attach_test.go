package attach

import (
	"strings"
	"testing"
)

// Keys that leave a process are theirs alone, all others go through.
func TestLeaving(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", "a\x10b": "a\x10b", "a\x10\x10b": "a\x10\x10b", "a\x10\x11": "a!", "\x11a": "\x11a", "x\x10\x10\x11": "x\x10!",
	} {
		left := false
		l := &leaving{r: strings.NewReader(in), leave: func() { left = true }}
		var got strings.Builder
		b := make([]byte, 4)
		for {
			n, err := l.Read(b)
			got.Write(b[:n])
			if err != nil {
				break
			}
		}
		text := got.String()
		if left {
			text += "!"
		}
		if text != want {
			t.Errorf("%q: %q, want %q", in, text, want)
		}
	}
}
