package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

var layouts = []string{
	"f=one two\nthree\n\nfour five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen\n\tindent\tx\nlast",
	"t=a b c\nddd ee f\n", "c=a:b:c\nd::f\n", "p=\\:\\:\\:\nh\n\\:\\:\nb\n\nx\n\\:\nf\n", "u=a       b\n        c\n   d    e\n\t  x\n", "empty=", "utf=añ€😀b\nèé\n",
	"blank=a\n\n\n\nb\n", "long=" + "abcdefghij klmno pqrstuvwxyz 0123456789\n", "bs=ab\b\bcd\refg\thij\n",
	"prose=# This is a comment. It goes on\n# and on, and on.\n\n  Indented text that is\n  somewhat longer than the rest of it.  Two spaces.\n(Parens) follow here\nwith: punctuation; of kinds!\n",
}

func layout(t *testing.T, loose bool, runs ...string) {
	t.Helper()
	var cases []commandtest.Case
	for _, run := range runs {
		cases = append(cases, commandtest.Case{Run: run, Tree: layouts, Stdin: "standard input\nsecond line\n", Loose: loose})
	}
	commandtest.Compare(t, cases)
}

func TestNlAgreesWithGNU(t *testing.T) {
	layout(t, false, "nl f", "nl -ba f", "nl -bt -w3 -s: f", "nl -n rz f", "nl -n ln f", "nl -v 10 -i 5 f", "nl -b p^t f", "nl -h a -f a p", "nl -p -ha -fa p", "nl -b x f", "nl -bn f", "nl -l 2 -ba blank",
		"nl nofile f", "nl -d X f", "nl", "nl empty", "nl f t", "nl -n zz f", "nl -w 0 f", "nl -s '' f", "nl -v -3 f", "nl -i x f", "nl -ba -w1 f", "nl -bp'o\\{1,\\}' f")
}

func TestTacAgreesWithGNU(t *testing.T) {
	layout(t, false, "tac f", "tac -s e t", "tac -b t", "tac nofile t", "tac", "tac f t", "tac empty", "tac -s '' t", "tac -r -s '[be ]' t", "tac -b -s d t", "tac -bs a t", "tac -s ee t", "tac -rs 'x*y' t", "tac blank", "tac -b f")
}

func TestRevAgreesWithTheRealOne(t *testing.T) {
	layout(t, true, "rev f", "rev nofile t", "rev utf", "rev", "rev empty", "rev f t")
}

func TestFoldAgreesWithGNU(t *testing.T) {
	layout(t, false, "fold -w 10 f", "fold -s -w 20 f", "fold -b -w 7 f", "fold -w x f", "fold -10 t", "fold", "fold -w 1 t", "fold -s -w 5 long", "fold -sw12 long", "fold -w 3 bs", "fold -bw3 bs", "fold -w 0 f", "fold nofile f", "fold -w 8 u", "fold -s -w 9 u", "fold empty")
}

func TestExpandAgreesWithGNU(t *testing.T) {
	layout(t, false, "expand f", "expand -t 4 f", "expand -i f", "expand -t 2,6,10 f", "expand -t x f", "expand -t /3 f", "expand -t 2,+5 f", "expand -4 f", "expand u", "expand -t 3 bs", "expand -t 0 f", "expand -t 5,3 f", "expand nofile", "expand",
		"unexpand u", "unexpand -a u", "unexpand -t 4 u", "unexpand --first-only -t 4 u", "unexpand -a f", "unexpand -t 2 u", "unexpand -a -t 3 u", "unexpand -t 2,4,9 u", "unexpand", "unexpand nofile", "unexpand -a long", "unexpand -t 1 u")
}

func TestPrAgreesWithGNU(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"pr t", "pr -t t", "pr -3 -t s10", "pr -3 -t -a s10", "pr -n -t t", "pr -m -t t c", "pr -h head -l 20 t", "pr -d -t t", "pr -o 4 -t t", "pr -l 30 s70", "pr -t -2 t", "pr -t -w 30 -3 s70", "pr -t -N 5 -n t",
		"pr +2 -l 30 s70", "pr -t -m -w 20 t c", "pr -t -s -2 s70", "pr -t -s, -2 s70", "pr -T -a -4 s70", "pr nofile", "pr -l 12 -h H t", "pr -t -3 -s, s10", "pr -l 30 -2 s70", "pr -t -5 s10", "pr -t -n:3 t", "pr +2:2 -l 20 s70", "pr empty", "pr t c",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: append([]string{"s10=" + commandtest.CountTo(10), "s70=" + commandtest.CountTo(70)}, layouts...)})
	}
	commandtest.Compare(t, cases)
}
