package command

import "testing"

func layoutCases(tree []string, stdin string, runs ...string) []deed {
	var cases []deed
	for _, r := range runs {
		cases = append(cases, deed{run: r, tree: tree, stdin: stdin})
	}
	return cases
}

func TestTac(t *testing.T) {
	tree := []string{"f=1\n2\n3\n", "g=x\ny", "e=", "d/"}
	compare(t, layoutCases(tree, "a\nb\nc\n", "tac", "tac f g", "tac g", "tac e", "tac - f", "tac missing f", "tac -s b", "tac -b", "tac -b -s b", "tac -r -s [ab]", "tac -r -s '[0-9]+' f", "tac -x", "tac --sep=2 f"))
	compare(t, layoutCases(nil, "", "tac"))
	compare(t, layoutCases(nil, "xxaxxbxxc", "tac -s xx", "tac -b -s xx"))
}

func TestRev(t *testing.T) {
	tree := []string{"f=abc\ncaf\u00e9\n\nlast", "e="}
	compare(t, layoutCases(tree, "hello world\n", "rev", "rev f", "rev e", "rev f f"))
}

func TestNl(t *testing.T) {
	tree := []string{"f=a\n\nb\n\n\nc\n", "s=h\n\\:\\:\\:\nhead\n\\:\\:\nbody\n\\:\nfoot\n\\:\\:\nmore\n"}
	compare(t, layoutCases(tree, "x\ny\n", "nl", "nl f", "nl -ba f", "nl -bn f", "nl -bpb f", "nl -ba -l2 f", "nl -n ln f", "nl -n rz f", "nl -n xx f", "nl -s: -w2 f", "nl -v10 -i5 f",
		"nl -v-3 f", "nl s", "nl -ha -fa s", "nl -p s", "nl -d xy s", "nl -w0 f", "nl -i x f", "nl -bz f", "nl -b 'p[' f", "nl f f", "nl missing", "nl -w 12 -n rz -s '' f"))
}

func TestFold(t *testing.T) {
	long := "the quick brown fox jumps over the lazy dog and runs away from all of the other animals in the forest tonight\nshort\n\ta\tb\tc\tdddddddddddd\nno_spaces_in_this_long_word_here_at_all_0123456789_0123456789_0123456789_0123456789\n"
	compare(t, layoutCases([]string{"f=" + long}, long, "fold", "fold -w 20", "fold -s -w 20", "fold -20", "fold -sw 10 f", "fold -b -w 7", "fold -w 1 f", "fold -w 0", "fold -w x", "fold -w20 missing", "fold -bs -w 12"))
	compare(t, layoutCases(nil, "abc\bdef\rghi", "fold -w 2", "fold -w 3 -b"))
}

func TestExpand(t *testing.T) {
	in := "\ta\tb\n  \tc\nx\ty\tz\n\t\t\nabc\b\td\n"
	compare(t, layoutCases([]string{"f=" + in}, in, "expand", "expand -t 4", "expand -4", "expand -i", "expand -t 2,5,9", "expand -t '2 5'", "expand -t 3,/4", "expand -t 3,+4", "expand -t 0", "expand -t x", "expand -t 5,3",
		"expand f f", "expand missing", "expand -it4"))
}

func TestUnexpand(t *testing.T) {
	in := "        a       b\n    c   d\n                e\n   \tf\n1234567 x\n123456  x\n12345678 y\n                  \na b  c        d\n"
	compare(t, layoutCases([]string{"f=" + in}, in, "unexpand", "unexpand -a", "unexpand -t 4", "unexpand --first-only -t 4", "unexpand -t 2,8", "unexpand -a f", "unexpand missing", "unexpand -t0"))
}

func TestFmt(t *testing.T) {
	text := "This is a paragraph of text. It has\nsome short lines and some lines that are quite a bit longer than seventy-five characters, so they must be broken.\nEnd.\n\n  Indented text here goes on\n  for two lines.\n\none two three\n"
	compare(t, layoutCases([]string{"f=" + text}, text, "fmt", "fmt -w 40", "fmt -30", "fmt -s -w 40", "fmt -u f", "fmt -w 20 f", "fmt -w 60 -g 50", "fmt missing", "fmt -w x", "fmt -p '> '"))
}
