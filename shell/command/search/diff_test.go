package search_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

var diffTree = []string{
	"a=one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n", "b=one\n2\nthree\nfour\nfive\nsix\nseven\n8\n8b\nnine\nten\n", "c=two\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\n",
	"nonl=one\ntwo", "nonl2=one\nthree", "nl=one\ntwo\n", "empty=", "case=ONE\nTwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n", "sp=one \n two\nth ree\nfour\nfive\nsix\nseven\neight\nnine\nten\n", "tabs=one\ta\n\tb\nlonger line with many words in it so that it is cut\n", "tabs2=one     a\n        b\nlonger line with many words in it so that it is kept\n",
	"blank=one\n\ntwo\nthree\n\n\nfour\nfive\nsix\nseven\neight\nnine\nten\n", "crlf=one\r\ntwo\r\n", "prog=#include <x>\n\nint main(void)\n{\n  a();\n  b();\n  c();\n  d();\n  e();\n  f();\n}\n\nstatic int other(int x)\n{\n  return 1;\n}\n", "prog2=#include <x>\n\nint main(void)\n{\n  a();\n  b();\n  c();\n  d();\n  e();\n  g();\n}\n\nstatic int other(int x)\n{\n  return 2;\n}\n",
	"bin1=a\x00b", "bin2=a\x00c", "wide=äöü\n日本語テキスト\nx\n", "wide2=äöu\n日本語テキスト\ny\n", "d1/f=a\nb\n", "d1/only=1\n", "d1/sub/s=s\n", "d1/x/", "d1/same=s\n", "d1/bin=a\x00", "d1/empty=", "d1/subonly/q=1\n", "d2/f=a\nc\n", "d2/only2=2\n", "d2/sub/s=t\n", "d2/x=f\n", "d2/same=s\n", "d2/bin=b\x00", "d2/empty=full\n", "a b=sp\n", "a c=sq\n",
}

func TestDiff(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"diff a b", "diff a a", "diff a c", "diff b c", "diff c a", "diff a empty", "diff empty a", "diff empty empty", "diff nonl nonl2", "diff nonl nl", "diff nl nonl", "diff -u nonl nl", "diff -c nonl nl", "diff a case", "diff -i a case", "diff a sp", "diff -b a sp", "diff -w a sp", "diff -Z a sp", "diff -B a blank", "diff -b a blank", "diff -wB a blank", "diff -uB a blank", "diff -E tabs tabs2", "diff tabs tabs2", "diff -t tabs tabs2", "diff -T tabs tabs2", "diff -uT tabs tabs2",
		"diff -u a b", "diff -U0 a b", "diff -U 1 a b", "diff -u1 a b", "diff -U10 a b", "diff --unified a b", "diff --unified=2 a b", "diff -c a b", "diff -C1 a b", "diff -C 0 a b", "diff --context a b", "diff -u a c", "diff -c a c", "diff -u a empty", "diff -u empty a", "diff -c empty a", "diff -c a empty", "diff --normal a b", "diff -u -c a b", "diff -U x a b", "diff -u --label A --label B a b", "diff -u -L A a b", "diff -c -L 'A b' a b", "diff -q a b", "diff -q a a", "diff -s a a", "diff -qs a a", "diff --brief a b", "diff -qi a case", "diff -sw a sp",
		"diff -y a b", "diff -y -W 40 a b", "diff -y -W 20 a b", "diff -y --left-column a b", "diff -y --suppress-common-lines a b", "diff -y a a", "diff -yt a b", "diff -y -W 60 tabs tabs2", "diff -y -W 30 wide wide2", "diff -y nonl nonl2", "diff -y nonl nl", "diff -y a empty", "diff -y empty a", "diff -y -W 10 a b", "diff -y -W 5 a b", "diff -yi a case", "diff -sy a a",
		"diff -p prog prog2", "diff -up prog prog2", "diff -cp prog prog2", "diff -u -F '^static' prog prog2", "diff -u -F '^int' prog prog2", "diff -I '^ *e' a b", "diff -I 2 -I two a b", "diff -u -I 8 a b", "diff -I '[' a b", "diff --color=always a b", "diff --color=always -u a b", "diff --color=always -c a b", "diff --color=never a b", "diff bin1 bin2", "diff bin1 bin1", "diff -q bin1 bin2", "diff -a bin1 bin2", "diff bin1 a", "diff crlf nl", "diff --strip-trailing-cr crlf nl", "diff -d a b", "diff -H a c",
		"diff d1 d2", "diff -r d1 d2", "diff -ruN d1 d2", "diff -rq d1 d2", "diff -rs d1 d2", "diff -rN d1 d2", "diff -r -x f -x 'on*' d1 d2", "diff -r --exclude=sub d1 d2", "diff -rc d1/sub d2/sub", "diff -r d1/ d2/", "diff -r -U 1 --minimal d1 d2", "diff -N d1 d2", "diff -rP d1 d2", "diff d1/f d2", "diff d1 d2/f", "diff a nope", "diff nope a", "diff nope nope2", "diff -N a nope", "diff -uN a nope", "diff -N nope a", "diff d1 nope", "diff a d1", "diff", "diff a", "diff a b c", "diff -k a b", "diff -W x a b", "diff --horizon-lines=2 a b", "diff a -", "diff - a", "diff - -", "diff -u a b d1", "diff -s d1/same d2/same", "diff -u 'a b' 'a c'", "diff -ru --suppress-blank-empty blank a", "diff -r d1/sub d2", "diff -y -r d1 d2",
	} {
		c := commandtest.Case{Tree: diffTree, Run: run, Stdin: "one\ntwo\n"}
		c.Loose = strings.Contains(run, "-k ")
		cases = append(cases, c)
	}
	commandtest.Compare(t, cases)
}

// TestDiffOfRandomTextsIsGNUs compares texts that share much, little and
// nothing.
func TestDiffOfRandomTextsIsGNUs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	var cases []commandtest.Case
	for i := range 60 {
		words := 2 + r.IntN(1<<(1+i%10))
		n := r.IntN(400)
		var a, b strings.Builder
		for range n {
			line := fmt.Sprintf("line %d\n", r.IntN(words))
			switch r.IntN(1 + i%7 + 3) {
			case 0:
				a.WriteString(line)
			case 1:
				b.WriteString(line)
			case 2:
				a.WriteString(line)
				fmt.Fprintf(&b, "other %d\n", r.IntN(words))
			default:
				a.WriteString(line)
				b.WriteString(line)
			}
		}
		for _, run := range []string{"diff a b", "diff -u a b", "diff -y -W 40 a b", "diff -d a b", "diff -U 1 b a"} {
			cases = append(cases, commandtest.Case{Name: fmt.Sprint(i, run), Tree: []string{"a=" + a.String(), "b=" + b.String()}, Run: run})
		}
	}
	commandtest.Compare(t, cases)
}

// TestDiffIsBounded compares texts that make the search expensive.
func TestDiffIsBounded(t *testing.T) {
	texts := func(f func(i int) string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	r := rand.New(rand.NewPCG(1, 1))
	for name, pair := range map[string][2]string{
		"Unrelated": {texts(func(i int) string { return fmt.Sprintf("left line number %d\n", i) }, 200000), texts(func(i int) string { return fmt.Sprintf("right line number %d\n", i) }, 200000)},
		"FewKinds":  {texts(func(int) string { return fmt.Sprintf("%d\n", r.IntN(4)) }, 30000), texts(func(int) string { return fmt.Sprintf("%d\n", r.IntN(4)) }, 30000)},
		"Reversed":  {texts(func(i int) string { return fmt.Sprintf("%d\n", i) }, 30000), texts(func(i int) string { return fmt.Sprintf("%d\n", 30000-i) }, 30000)},
	} {
		t.Run(name, func(t *testing.T) {
			s := commandtest.New(t, "/work")
			s.WriteFile("a", pair[0])
			s.WriteFile("b", pair[1])
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			o, err := s.Run(ctx, strings.NewReader(""), io.Discard, "diff", "a", "b")
			if err != nil || o.Code != 1 {
				t.Errorf("%v %+v", err, o)
			}
		})
	}
	many := texts(func(int) string { return fmt.Sprintf("%d\n", r.IntN(4)) }, 300000)
	s := commandtest.New(t, "/work")
	s.WriteFile("a", many)
	s.WriteFile("b", many[2001:]+many[:1000])
	s.MustEndInTime("", "diff", "a", "b")
}
