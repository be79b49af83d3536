package output

import (
	"strings"
	"testing"
)

func TestPaint(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"Plain", "hello\nworld", "hello\nworld\n"},
		{"Bold", "a **b** c", "a \x1b[1mb\x1b[22m c\n"},
		{"Code", "run `ls -l` now", "run \x1b[36mls -l\x1b[39m now\n"},
		{"Heading", "## Title\ntext", "\x1b[1mTitle\x1b[22m\ntext\n"},
		{"NotAHeading", "#define X", "#define X\n"},
		{"ListsAndProducts", "* one\n2 * 3", "* one\n2 * 3\n"},
		{"Fence", "```go\na **b** `c`\n```\nd", "\x1b[36m```go\na **b** `c`\n\x1b[39m```\nd\n"},
		{"OpenAtTheEndOfALine", "**a\nb", "\x1b[1ma\x1b[22m\nb\n"},
		{"EscapesAreShown", "a\x1b]0;evil\x07b\u202ec", "a·]0;evil·b·c\n"},
		{"SignsAtTheEnd", "a **", "a \x1b[1m\x1b[22m\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 1000} { // pieces may end anywhere
				var b strings.Builder
				p := Markdown{W: &b, Color: true}
				r := []rune(tt.in)
				for i := 0; i < len(r); i += size {
					if err := p.WriteText(string(r[i:min(len(r), i+size)])); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				if b.String() != tt.want {
					t.Errorf("in pieces of %d:\ngot  %q\nwant %q", size, b.String(), tt.want)
				}
			}
		})
	}
}

func TestPaintWithoutColourChangesNothing(t *testing.T) {
	var b strings.Builder
	p := Markdown{W: &b}
	in := "**a** `b`\n```\n\x1b[31m\n"
	if err := p.WriteText(in); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if b.String() != in {
		t.Errorf("got %q", b.String())
	}
}
