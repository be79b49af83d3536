package search_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// poem is a text to search and compare.
const poem = `Tyger Tyger, burning bright,
In the forests of the night;
What immortal hand or eye,
Could frame thy fearful symmetry?

In what distant deeps or skies.
Burnt the fire of thine eyes?
On what wings dare he aspire?
What the hand, dare seize the fire?

And what shoulder, & what art,
Could twist the sinews of thy heart?
And when thy heart began to beat.
What dread hand? & what dread feet?
`

func TestGrep(t *testing.T) {
	tree := []string{"poem=" + poem, "d/x=abc\nwhat\n", "d/y.txt=what else\n", "d/sub/z.c=what for\n", "bin=abc\x00def\nabc\n", "enc=abc\nab\xffc\nabc2\n", "nonl=no newline\nat the end", "empty=", "pats=hand\nfire\n", "link->poem", "dl->d", "crlf=abc\r\nabd\r\n", "utf=é à ü\nnaïve\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"grep what poem", "grep -i what poem", "grep -c what poem", "grep -ci what poem poem", "grep -v what poem", "grep -vc what poem", "grep -n the poem", "grep -b the poem", "grep -nb the poem", "grep -o the poem",
		"grep -on the poem", "grep -ob the poem", "grep -ow the poem", "grep -w an poem", "grep -w and poem", "grep -iw and poem", "grep -x 'In the forests of the night;' poem", "grep -x '' poem", "grep -c '' poem", "grep -c '^$' poem",
		"grep -E 'hand|fire' poem", "grep -e hand -e fire poem", "grep -f pats poem", "grep -F -f pats poem", "grep -f empty poem", "grep -vf empty poem", "grep -F . poem", "grep -F 'art,' poem", "grep -E '^(In|On) ' poem", "grep 'e[.?]$' poem",
		"grep -E '([a-z])\\1' poem", "grep -E '(.)(.)\\2\\1' poem", "grep -e '\\(e\\)\\1' -e '\\(t\\)\\1' poem", "grep -P '\\bwh\\w+(?= hand)' poem", "grep -oP '(?<=the )\\w+' poem", "grep -oP 'the \\K\\w+' poem", "grep -P -e a -e b poem", "grep -P '(?<n>e)\\k<n>' poem",
		"grep -l what poem d/x empty", "grep -L what poem d/x empty", "grep -L nothing poem", "grep -lc what poem d/x", "grep -q what poem", "grep -q nothing poem", "grep -q what nope poem", "grep what nope", "grep -s what nope poem", "grep what d", "grep -s what d", "grep -c what d/x nope",
		"grep -m 2 what poem", "grep -m2 -c what poem", "grep -m 0 what poem", "grep -m 1 -A 3 what poem", "grep -m 2 -v what poem", "grep -A 1 dare poem", "grep -B 1 dare poem", "grep -C 1 dare poem", "grep -1 dare poem", "grep -A1 -B2 -n heart poem", "grep -C 1 -n -e Tyger -e eye -e feet poem",
		"grep -C 20 fire poem", "grep -B 3 Tyger poem", "grep -A 3 feet poem", "grep -C1 --group-separator=== dare poem", "grep -C1 --no-group-separator -e frame -e heart poem", "grep -vn -A1 e poem", "grep -c -A1 dare poem", "grep -o -A1 dare poem", "grep -A1 -e dare poem d/x", "grep -H what d/x", "grep -h what d/x d/y.txt", "grep -Hn what d/x",
		"grep what d/x d/y.txt poem", "grep -rh what d/sub", "grep -r what d/sub", "grep -r what d/sub/", "grep what -r d/sub/z.c", "grep -rl for d", "grep -R what d/sub", "grep -r --include=*.c what d", "grep -r --include '*.txt' what d", "grep -r --exclude=*.c --exclude x what d", "grep -r --exclude-dir=sub --exclude=x what d",
		"grep --exclude-dir=d -r what .", "grep --include=*.c what poem d/sub/z.c", "grep --exclude=poem what poem d/x", "grep -r zzz d", "grep -d skip what d poem", "grep -d recurse for d", "grep -d foo a", "grep -Zl what poem d/x", "grep -cZ what poem d/x", "grep -z what poem", "grep -zc . poem", "grep -Tb what d/x", "grep -T what d/x",
		"grep abc bin", "grep -a abc bin", "grep -c abc bin", "grep -o abc bin", "grep -I abc bin enc", "grep --binary-files=text abc bin", "grep --binary-files=without-match abc bin", "grep --binary-files=foo abc bin", "grep -l abc bin", "grep -q abc bin", "grep -n def bin", "grep -v abc bin", "grep zzz bin",
		"grep abc enc", "grep -a abc enc", "grep -c b enc", "grep -v abc enc", "grep -o ab enc", "grep end nonl", "grep -c end nonl", "grep -v end nonl", "grep -n '' nonl", "grep '$' empty", "grep x empty", "grep é utf", "grep -o . utf", "grep -i É utf", "grep -c 'n.*ï' utf", "grep 'c$' crlf", "grep -c b. crlf",
		"grep --color=always the poem", "grep --color=always -n the poem d/x", "grep --color=always -o what poem", "grep --color=always -v what d/x", "grep --color=always -A1 dare poem", "grep --color=always -Hc what d/x", "grep --color=always -l what d/x", "grep --colour=never the poem", "grep --color=always '' d/x", "grep --color=always -b -H what d/x",
		"grep", "grep -E", "grep -A x a poem", "grep -m x a poem", "grep -C -1 a", "grep '[' poem", "grep '\\(' poem", "grep -E '(' poem", "grep -E 'a{2,1}' poem", "grep '[[:foo:]]' poem", "grep '[:space:]' poem", "grep -E 'a**' poem", "grep -e $'a\\nfire' poem", "grep -e '\\(' -e '\\)' poem", "grep -E 'x{99999}' poem",
		"grep --nosuch a poem", "grep -k a poem", "grep --in a poem", "grep -e", "grep -- -x poem", "grep what -- poem", "egrep 'hand|eye' poem", "fgrep . poem", "grep -y TYGER poem", "grep -i --no-ignore-case TYGER poem", "grep what - poem", "grep --label=here -H what -", "grep --line-buffered what poem", "grep -u what poem", "grep -bo the d/x poem",
		"grep -ve what -e the poem", "grep -nv '' poem", "grep -w '' poem", "grep -xc '.*' poem", "grep -wo '[a-z]*' d/x", "grep -F -x -e abc -e what d/x", "grep -F -w -i HAND poem", "grep -Fo -e the -e then -e heart poem", "grep -E 'a|b|c|d|e|f' -c poem", "grep -E '(a|b)*z' -c poem", "grep -e foo link", "grep -rc fire dl", "grep -r fire link", "grep -rs what nope d/sub", "grep 'wh*at' poem", "grep '\\<t.*\\>$' poem", "grep '\\w\\+,' poem", "grep -n '^' empty nonl",
	} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run, Stdin: "what a line\nand another\n", Mixed: strings.Contains(run, "-r"), Loose: strings.Contains(run, "-k ") || strings.Contains(run, "--n") || strings.HasSuffix(run, "-e") || strings.Contains(run, "--in ")})
	}
	for _, run := range []string{"grep -o . utf", "grep -c 'n..v' utf", "grep -o '\\w*' utf", "grep -i É utf", "grep abc enc", "grep -o '[^a]*' utf", "sed 's/./x/g' utf", "sed 's/x*/-/g' utf", "sed 's/\\w/x/g' utf", "sed -n l utf"} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run, Env: []string{"LC_ALL=C"}, Name: "C locale: " + run})
	}
	commandtest.Compare(t, cases)
}

// TestGrepContextAcrossBuffers checks context that spans several reads.
func TestGrepContextAcrossBuffers(t *testing.T) {
	var text strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&text, "line %d %s\n", i, strings.Repeat("x", i%50))
	}
	tree := []string{"big=" + text.String()}
	var cases []commandtest.Case
	for _, run := range []string{"grep -nC3 '99 ' big", "grep -B5 '00 x' big", "grep -A4 '[05]000 ' big", "grep -c 7 big", "grep -vc 7 big", "grep -bn '9999' big", "grep -v -m 20000 -c x big", "grep -C 100 '77 ' big"} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run})
	}
	commandtest.Compare(t, cases)
}

// TestGrepIsBounded matches much text with patterns that take other engines
// exponential time.
func TestGrepIsBounded(t *testing.T) {
	s := commandtest.New(t, "/work")
	s.WriteFile("as", strings.Repeat(strings.Repeat("a", 5000)+"\n", 2000))
	s.WriteFile("one", strings.Repeat("ab", 4<<20))
	s.WriteFile("words", strings.Repeat("some words here and there\n", 300000))
	for _, run := range []string{
		"grep -E (a*)*b as", "grep -E (a+)+$ as", "grep -E (.*)(.*)(.*)(.*)(.*)x\\1 as", "grep -P ^(a+)+$b as", "grep -P (a|aa)+\\1$ as", "grep -E (a{1,50}){1,50}b as", "grep -o a as", "grep -E (a|b)*a(a|b){12}c one", "grep -o . one", "grep -Po (?<=a)b one", "grep -w -o [a-z]* words",
		"grep -vn -E (a|b|c)+x words", "grep --color=always e words", "grep -n -C 3 there words", "sed s/\\(.*\\)\\1/x/ as", "sed -E s/(a|b)*c|(.*)$/x/g one", "sed s/./&&/g one", "sed -n l one", "sed y/ab/éü/ one", "sed -E :a;s/(a)(b)/\\2\\1/;ta one", "grep -E x{3000} as", "grep -iE [[:alpha:]]*[[:digit:]]+$ one",
	} {
		t.Run(run, func(t *testing.T) {
			s.TB = t
			s.MustEndInTime("", commandtest.SplitWords(strings.ReplaceAll(run, "'", ""))...)
		})
	}
}
