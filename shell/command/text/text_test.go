package text_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestCat(t *testing.T) {
	odd := "a\tb\n\n\n\nc\rd\r\n\x00\x7f\x80\xff\xc3\xa9\nlast"
	tree := []string{"f=one\ntwo\n", "g=" + odd, "d/", "0600 h=x"}
	commandtest.Compare(t, []commandtest.Case{
		{Run: "cat f g h", Tree: tree},
		{Run: "cat", Stdin: odd},
		{Run: "cat - f", Stdin: odd},
		{Run: "cat -n f g", Tree: tree},
		{Run: "cat -b g", Tree: tree},
		{Run: "cat -s g", Tree: tree},
		{Run: "cat -A g", Tree: tree},
		{Run: "cat -e g f", Tree: tree},
		{Run: "cat -E g h f", Tree: tree},
		{Run: "cat -t g", Tree: tree},
		{Run: "cat -T g", Tree: tree},
		{Run: "cat -v g", Tree: tree},
		{Run: "cat -vbs g g", Tree: tree},
		{Run: "cat --show-all --number g", Tree: tree},
		{Run: "cat nofile f d", Tree: tree},
		{Run: "cat --nosuch=1"},
		{Run: "cat --show"},
		{Run: "cat --number=3"},
		{Run: "cat -nz"},
		{Run: "cat $'a\\nb' a:b"},
	})
}

func TestHead(t *testing.T) {
	tree := []string{"f=1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "g=a\nb\nc", "e=", "d/", "z=a\x00b\x00c\x00"}
	var cases []commandtest.Case
	for _, args := range []string{
		"f", "-3 f", "-n 3 f", "-n3 f g", "-n -3 f", "-n -1 g", "-n -0 g", "-n -2 g", "-n -5 g", "-c 5 f", "-c -5 f", "-c 1k f",
		"-q f g", "-v f", "-v -n 1 f e g", "-n 0 f", "-z -n 2 z", "-z -n -1 z", "nofile f", "f d g", "-n x f", "-c x f", "-n 1kB f", "-n 1z f",
		"-n 99999999999999999999 f", "-5c f", "-2q f g", "-2v f", "-1x f", "-n -12 f", "-n -13 f", "-c -100 f", "-", "-n", "-n 2 - f", "--lines=2 f", "--bytes 3 f",
		"-n +3 f", "-n '' f", "-c -0 f", "-n 1b f", "--li=1 f",
	} {
		cases = append(cases, commandtest.Case{Run: "head " + args, Tree: tree, Stdin: "in1\nin2\nin3\n"})
	}
	commandtest.Compare(t, cases)
}

func TestTail(t *testing.T) {
	tree := []string{"f=1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", "g=a\nb\nc", "e=", "d/", "z=a\x00b\x00c\x00"}
	var cases []commandtest.Case
	for _, args := range []string{
		"f", "-3 f", "-n 3 f", "-n3 f g", "-n +3 f", "-n +1 g", "-n +0 g", "-n +100 f", "-n -2 g", "-c 5 f", "-c +5 f", "-c +0 f", "-c 1k f",
		"-q f g", "-v f", "-v -n 1 f e g", "-n 0 f", "-z -n 2 z", "-z -n +2 z", "nofile f", "f d g", "-n x f", "-c x f", "-c -3 f", "-n 1 g",
		"+3 f", "-2c f", "+2c f", "-1l f", "-n 2", "-n +2", "-c 2", "-c +2", "-n 0", "-", "- f", "-n 99999999999999999999 f", "--lines=2 f", "--bytes 3 f",
		"-n 12 f", "-n 13 f", "-n 11 f", "-3 f g", "--follow=x f", "-s x f", "--pid=x f",
	} {
		cases = append(cases, commandtest.Case{Run: "tail " + args, Tree: tree, Stdin: "in1\nin2\nin3"})
	}
	commandtest.Compare(t, cases)
}

func TestWc(t *testing.T) {
	tree := []string{"f=1 2\n3\tx\n", "g=caf\xc3\xa9 \xff\xfe x\x00y\n\xe3\x80\x80\xe6\x97\xa5\xe6\x9c\xac w", "e=", "d/", "names=f\x00g\x00\x00e\x00", "big=" + strings.Repeat("word word\n", 20000)}
	var cases []commandtest.Case
	for _, args := range []string{
		"f", "f g e", "-l f", "-w g", "-c g", "-m g", "-L g f", "-lw f g", "-lc f", "-cm f", "", "-", "- f", "-l", "-c", "nofile", "nofile f", "f nofile", "d", "d f",
		"--files0-from=names", "--files0-from=names x", "--files0-from=nofile", "--lines --chars f", "-L big", "big f", "-m big", "e", "-lwmcL g", "-l nofile", "$'a\\nb'",
	} {
		cases = append(cases, commandtest.Case{Run: "wc " + args, Tree: tree, Stdin: "in put\n x\n"})
	}
	commandtest.Compare(t, cases)
}

func TestUniq(t *testing.T) {
	in := "a\na\nb\nc\nc\nc\nA\na 1\nb 1\nb 2\n  x y\n z y\nend"
	var cases []commandtest.Case
	for _, args := range []string{
		"", "-c", "-d", "-u", "-D", "-i", "-ci", "-f 1", "-s 1", "-w 1", "-cd", "-cu", "-du", "-Du", "--all-repeated=separate", "--all-repeated=prepend", "--all-repeated=none",
		"--group", "--group=prepend", "--group=append", "--group=both", "--group -c", "-Dc", "-z", "-f1 -s1 -w1", "-f x", "-w x", "-s x", "--all-repeated=x", "--group=x",
		"-1", "-f 1 -c", "- out", "f out", "a b c", "nofile", "-w 0", "-Di", "-di", "-c +1", "--count --repeated", "d",
	} {
		cases = append(cases, commandtest.Case{Run: "uniq " + args, Tree: []string{"f=x\nx\ny\n", "d/"}, Stdin: in})
	}
	commandtest.Compare(t, append(cases, commandtest.Case{Run: "uniq -c", Stdin: ""}, commandtest.Case{Run: "uniq --group=both", Stdin: ""}, commandtest.Case{Run: "uniq", Stdin: "\n\n"}))
}

func TestCut(t *testing.T) {
	in := "a:b:c:d\nno delimiter\n:x::y\n\ncaf\xc3\xa9:z\nlast:one"
	var cases []commandtest.Case
	for _, args := range []string{
		"-f 1 -d:", "-f 2 -d:", "-f 2- -d:", "-f -2 -d:", "-f 1,3 -d:", "-f 3,1 -d:", "-f 1-2,2-3 -d:", "-d: -f2 -s", "-d: -f 2,4 --output-delimiter=__", "-c 2", "-c 2-4", "-b 1,3-",
		"-b -2", "-b 1,3,5 --output-delimiter=-", "-b 1-2,3-4 --output-delimiter=-", "-c 4-5", "--complement -c 2", "--complement -d: -f 2", "-f 9 -d:", "-f 1", "-f 1 -d ' '", "-d '' -f 1",
		"", "-f 0", "-f x", "-f 1x", "-f -", "-f 2-1", "-f ''", "-f 1 -c 1", "-c 1 -d:", "-c 1 -s", "-d ab -f 1", "-f 1,,2 -d:", "-b 0", "-b x", "-f 1-2-3", "-f 99999999999999999999", "-z -f 1 -d:",
		"-d: -f 1 nofile f", "-d: -f 1 d", "-n -b 1", "-f 1 -d $'\\n'", "-f 2-3 -d $'\\n'", "-d: -f 1-20", "-d: -f 2-20 -s", "-d: -f2,3 -s", "--complement -f 1-2 -d:", "-f '1 3' -d:", "-c 99999999999999999999",
	} {
		cases = append(cases, commandtest.Case{Run: "cut " + args, Tree: []string{"f=1:2\n", "d/"}, Stdin: in})
	}
	commandtest.Compare(t, cases)
}

func TestTr(t *testing.T) {
	in := "Hello, World!  aabbcc 112233\n\ttabs\r\n\x00\xff[x]-z\\\n"
	var cases []commandtest.Case
	for _, args := range []string{
		"a-z A-Z", "'[:lower:]' '[:upper:]'", "'[:upper:]' '[:lower:]'", "-d a-z", "-d '[:space:]'", "-s ' '", "-s a-z", "-s '[:lower:]' '[:upper:]'", "-c a-z x", "-cd '[:alnum:]'", "-cs a-zA-Z $'\\n'",
		"-ds a-m lo", "abc x", "abc xy", "-t abc x", "'a-c' '[x*]'", "a-f '[x*2]y'", "'[=a=]' b", "'\\n' ' '", "'\\101' b", "'\\400' b", "'a\\' b", "z-a b", "'[:foo:]' b", "'[:upper:]' x", "a '[:digit:]'",
		"'[a*]' b", "a '[b*][c*]'", "'[]' xy", "a", "", "a b c", "-d a b", "-d", "-s a", "-ds a", "a-z ''", "-C a-y x", "'[:alpha:]' '[:upper:]'", "'[:lower:]' 'A-Z'", "'\\0' x", "-d '\\r'", "-dc '\\11\\12\\15\\40-\\176'",
		"'[a-z]' '[A-Z]'", "-d '-'", "a-c- 123-", "'[x*3]' a", "-s '' ''", "'[::]' x", "'[==]' x", "'[=ab=]' x", "abc '[x*z]'", "-t abcd '[:upper:]'", "-c '[:lower:]' ab", "'abc\\-' 1234", "'[:lower:]' '[:lower:]'", "'[:upper:][:lower:]' '[:lower:][:upper:]'",
		"abc '[x*010]y'", "-d -c a", "--delete l", "a-zA-Z n-za-mN-ZA-M", "-s '\\n'", "'\\b\\f\\v\\a' 1234", "e é",
	} {
		cases = append(cases, commandtest.Case{Run: "tr " + args, Stdin: in})
	}
	commandtest.Compare(t, cases)
}

func TestPaste(t *testing.T) {
	tree := []string{"a=1\n2\n3\n", "b=x\ny", "c=", "d/"}
	var cases []commandtest.Case
	for _, args := range []string{
		"a b", "b a", "a c b", "-s a b", "-d, a b a", "-d ,: a b a", "-d '\\n' a b", "-d '\\0' a b", "-d '\\' a b", "-d '' a b", "-s -d , a", "-sd ,: a", "-s c", "- -", "- - -", "-", "", "nofile a", "-s nofile a",
		"d", "-s d a", "-z a b", "-d '\\t\\\\x' a b a b", "a - b -", "c c", "--serial --delimiters=+ a b",
	} {
		cases = append(cases, commandtest.Case{Run: "paste " + args, Tree: tree, Stdin: "i\nj\nk\nl\n"})
	}
	commandtest.Compare(t, cases)
}

func TestJoin(t *testing.T) {
	tree := []string{"a=1 one x\n2 two\n2 deux y\n4 four\n", "b=1 uno\n2 dos z w\n2 zwei\n3 tres\n", "u=3 c\n1 a\n2 b\n", "ca=k:v:1\nm::2\n", "cb=k:w\nm:z:3\n", "K=A x\nb y\n", "k=a 1\nB 2\n", "h1=id name\n1 a\n2 b\n", "h2=id val\n2 x\n", "e=", "d/"}
	var cases []commandtest.Case
	for _, args := range []string{
		"a b", "-a 1 a b", "-a 2 a b", "-a1 -a2 a b", "-v 1 a b", "-v 2 a b", "-v1 -v2 a b", "-o 1.1,2.2 a b", "-o 0,1.2,2.3 -e EMPTY a b", "-a1 -a2 -e - -o 0,1.2,2.2 a b", "-o auto -e . a b", "-a1 -o auto -e . a b",
		"-t: ca cb", "-t: -1 2 -2 2 ca cb", "-j 1 a b", "-1 2 a b", "u b", "a u", "--check-order u b", "--nocheck-order u b", "-i K k", "K k", "--header h1 h2", "--header -a1 h1 h2", "a", "", "a b c", "a -", "nofile b",
		"-t xx a b", "-t '' a b", "-a 3 a b", "-1 0 a b", "-1 x a b", "-o 3.1 a b", "-o 1 a b", "-o 1.x a b", "-z a b", "e b", "-a 2 e b", "-1 1 -1 2 a b", "-e a -e b a b", "-o 1.1 2.2 a b", "-t ' ' a b", "-v 1 u a", "-j 2 a b",
	} {
		cases = append(cases, commandtest.Case{Run: "join " + args, Tree: tree, Stdin: "1 in\n2 put\n"})
	}
	commandtest.Compare(t, cases)
}
