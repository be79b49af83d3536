package output

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		width int
		want  []string
	}{
		"Fits":        {"one two", 20, []string{"one two"}},
		"Exactly":     {"aaaaaaaaaa bbbbbbbbb", 20, []string{"aaaaaaaaaa bbbbbbbbb"}},
		"OneTooMany":  {"aaaaaaaaaa bbbbbbbbbb", 20, []string{"aaaaaaaaaa", "bbbbbbbbbb"}},
		"LongWord":    {"see aaaaaaaaaaaaaaaaaaaaaaaaa there", 20, []string{"see", "aaaaaaaaaaaaaaaaaaaaaaaaa", "there"}},
		"NotBytes":    {"ääääääääää ööööööööö", 20, []string{"ääääääääää ööööööööö"}},
		"BlanksStay":  {"a  b", 20, []string{"a  b"}},
		"NoTerminal":  {"aaaaaaaaaa bbbbbbbbbb", 0, []string{"aaaaaaaaaa bbbbbbbbbb"}},
		"NoRoom":      {"aaaaaaaaaa bbbbbbbbbb", -5, []string{"aaaaaaaaaa bbbbbbbbbb"}},
		"NothingToDo": {"", 20, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wrapText(c.text, c.width); !slices.Equal(got, c.want) {
				t.Errorf("wrap: %q, want %q", got, c.want)
			}
		})
	}
}

func TestWrapLast(t *testing.T) {
	rows := [][]string{{"NAME", "SAVED"}, {"web", "main, wip/main, feature/login"}, {"x", "-"}}
	got := string(FormatTable(WrapLastColumn(rows, 2, 26), 2))
	want := "NAME  SAVED\nweb   main, wip/main,\n      feature/login\nx     -\n"
	if got != want {
		t.Errorf("a narrow table:\n%s\nwant\n%s", got, want)
	}
	if n := MaxLineWidth([]byte("ä  \nbbb\n")); n != 3 {
		t.Errorf("widest: %d", n)
	}
}
