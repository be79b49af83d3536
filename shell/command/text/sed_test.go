package text_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// sedScripts are commands that edit the same few lines, in shell syntax.
var sedScripts = []string{
	`sed '1a foo\nbar'`, `sed '1a\foo\tbar'`, `sed '1a\  foo'`, `sed '1a   foo'`, `sed $'1a\\\n  foo'`, `sed $'1a\\\nfoo\\\nbar'`, `sed '1a foo\\bar'`, `sed '1a \  foo'`, `sed '1a\'`, `sed '1a'`, `sed -e '1a\' -e '  foo'`, `sed -e '1a foo\' -e bar`,
	`sed $'1{a foo\n}'`, `sed '1i\   x'`, `sed $'1a\\\n\\  foo'`, `sed '1afoo'`, `sed $'1a foo\\\n  bar'`, `sed '1a \ttab'`, `sed $'1a\\\n\\ttab'`, `sed '/1/{bx}; :x'`, `sed ':a;1ba2;s/l/L/;:a2'`, `sed ': a b'`, `sed ':a ;s/l/L/'`, `sed 'b nope'`, `sed ':'`, `sed '1b;s/l/X/'`,
	`sed 's/[/]/x/'`, `sed 's|l\|1|X|'`, `sed 's+l\++X+'`, `sed 's,\,,X,'`, `sed -E 's|l\|1|X|'`, `sed -E 's+l\++X+'`, `sed 's&l&\&&'`, `sed 's/l/\x26/'`, `sed 's/\x6c/Z/'`, `sed 's/\x5e/Z/'`, `sed 's/l/a\qb/'`, `sed 's/l/\o101\d066\cA/'`, `sed 's/[\n]/X/;N;s/[\n]/X/'`, `sed 'N;s/\n/+/'`, `sed 's/l/\n/'`, `sed 'y/l1/\n\t/'`, `sed 'y/l/\q/'`, `sed 'y/abc/ab/'`, `sed 'y/l\/1/abc/'`, `sed 'y,l\,,ab,'`,
	`sed s/l/x/gg`, `sed s/l/x/pp`, `sed s/l/x/0`, `sed 's/l/x/2 3'`, `sed s/l/x/q`, `sed 's/l/x/ p'`, `sed s/l/x`, `sed s/l`, `sed y/l`, `sed /l`, `sed k`, `sed 1,p`, `sed ,p`, `sed 1,2`, `sed '1!!p'`, `sed '1! p'`, `sed +1p`, `sed 0p`, `sed 0,2p`, `sed 0,/l/d`, `sed 1,+1d`, `sed 1,~2d`, `sed 0~2d`, `sed 2~0d`, `sed '{p'`, `sed 'p}'`, `sed '1}'`, `sed 'p p'`, `sed dp`, `sed 1,2q`, `sed q5`, `sed 'q 5x'`, `sed 1:a`, `sed '1#x'`, `sed 's/\(l\)/\2/'`, `sed s//x/`, `sed /l/s//X/`, `sed //Ip`, `sed s//x/I`, `sed r`, `sed w`, `sed --sandbox 'r x'`, `sed '}'`,
	`sed 's/\(/x/'`, `sed 's/a\{1/x/'`, `sed '/[/p'`, `sed '/\(/p'`, `sed $'s/a\nb/c/'`, `sed $'s/l/a\nb/'`, `sed $'s/l/a\\\nb/'`, `sed 'v 9.0'`, `sed 'l 5'`, `sed -n 'l;l 1;l 3'`, `sed '$!N;l'`, `sed '\,l,d'`, `sed '\nlnd'`, `sed s/l/x/w`, `sed y/l/é/`, `sed séléxé`, `sed a`, `sed -n '{;;p;}'`, `sed -n '{p};p'`, `sed -n '/1/,/2/{p;p}'`, `sed -n '$='`, `sed F`, `sed '2{h;d};${G}'`, `sed '2c\changed'`, `sed '1,2c\changed'`, `sed '$!N;c\x'`, `sed '1!c foo'`, `sed '2,1c foo'`,
	`sed 's.l1\..X.'`, `sed -E 's.l1\..X.'`, `sed 's*\**X*'`, `sed -E 's*\**X*'`, `sed 's/\x2a/Z/'`, `sed 's/\x2e/Z/'`, `sed 's/[\x5d]/Z/'`, `sed 's/l/\x5c1/'`, `sed 's/\(l\)/[\x5c1]/'`, `sed 's/\d042/Z/'`, `sed 's/\cA/Z/'`, `sed 's/l/X/;}'`, `sed 's/l/X/}'`, `sed '1{s/l/X/}'`, `sed '1{p};2{p}'`, `sed '1{p;p'`, `sed 's/l/X/w /dev/stdout'`, `sed 1w/dev/stdout`, `sed 's/\n/X/'`, `sed 's/l\n*/X/'`, `sed 's/a\/b/X/;s/l/\//'`, `sed 's/l1\|l2/X/'`, `sed $'s/l/a\\\n/'`, `sed 's/l/a\\nb/'`, `sed 's/./\n/2'`, `sed 's/\(l\)\|x/[\1]/'`, `sed 's/\(x\)*l/[\1]/'`, `sed -E 's/(l)|(x)/[\1\2]/'`,
	`sed 'y/\n/x/;y/l\\/x\n/'`, `sed -n '/l1/I,/L3/Ip'`, `sed -n '\%l2%p'`, `sed -n '\cl2cp'`, `sed -n '/l\/1/p'`, `sed -n '/[/]/p'`, `sed 's/[]/]/X/'`, `sed 's/[^]/]/X/'`, `sed 's/[[:alpha:]/]/X/g'`, `sed 's/\[/X/;s/]/Y/'`, `sed 's/\//X/'`, `sed '1 d'`, `sed -n '1,3 {p}'`, `sed -n '2 , 3 p'`, `sed '1,3!d'`, `sed '$ d'`, `sed -n '1~2 p'`, `sed -n '2,~2 p'`, `sed -n '2, +1 p'`, `sed -n '/l/,+0p'`, `sed -n '1,/l/p'`, `sed 's/l/X/gI;s/x/Y/ig'`, `sed 's/l/X/M'`, `sed 's/^/X/mg'`, `sed 's/l/X/;t;s/X/Y/'`, `sed 's/l/X/;T;s/X/Y/'`, `sed -n '=;l;='`, `sed -n 'i foo'`, `sed 'z;s/^$/e/'`, `sed '2!{s/l/X/}'`, `sed -n '2! {p}'`,
	`sed '2i\' -e two`, `sed -n $'2i\\\nfoo\\\nbar\np'`, `sed y/l/X/g`, `sed 's/l/&&/;s/l\(.\)/\1&/'`, `sed 's/l/\&/'`, `sed 's/l/\0\0/'`, `sed 's/\(.\)\(.\)/\2\1/'`, `sed 5q`, `sed '2q5;'`, `sed '2{q 3}'`, `sed 'N;N;D'`, `sed 'N;N;P;D'`, `sed 'x;G;1!h;$!d'`, `sed 'H;$!d;x;s/\n/,/g'`, `sed '1!G;h;$!d'`, `sed '/l2/{n;d}'`, `sed '/l2/{N;d}'`, `sed '/l1/{N;N;s/\n/+/g}'`, `sed '$!N;$!D'`, `sed -s -n '$='`, `sed 's/$/\r/'`, `sed 's/\t*/x/'`, `sed 's/l/\v\f\a/'`, `sed 's/\s*$//'`, `sed 's/\b/X/g'`, `sed 's/\</X/g;s/\>/Y/g'`, `sed 's/\w\W/X/'`, "sed 's/\\`l/X/'", `sed $'s/\\\'$/Y/'`,
	`sed 's/l\{1\}/X/;s/[0-9]\{1,\}/N/'`, `sed -E 's/l{1}/X/;s/[0-9]{1,}/N/'`, `sed -E 's/(^|l)1/X/'`, `sed --line-length=5 -n l`, `sed -l 5 -n l`, `sed -l x l`, `sed -l 1 -n l`, `sed -E 's/a|b|//'`, `sed 's/\(a\|b\|\)/X/'`, `sed 's/*/X/'`, `sed 's/\(*\)/X/'`, `sed 's/^*/X/'`, `sed -z 's/\n/,/g'`, `sed -z '$!d'`, `sed -n '/l1/,/l1/p'`, `sed -n '2,/l/p'`, `sed -n '/l1/,2p;/l3/,1p'`, `sed -n '0,/l1/p'`, `sed -n '1,0p'`, `sed -n '2,2p'`, `sed -n '/2/,$p'`, `sed -n '$,1p'`,
	`sed p`, `sed -n p`, `sed ''`, `sed -n ''`, `sed '#n' -e p`, `sed -e '#n' -e p`, `sed $'#n\np'`, `sed '#no comment'`, `sed -e p -e k`, `sed 's/l/\U&x\Ey/'`, `sed 's/l\(.\)/\u\L&BC/;s/b/\lXX/'`, `sed 's/\w\+/\u&/g;s/l/\U&\n&/'`, `sed -E 's/(l)(.*)/\U\1\E\2/;s/(x?)L/\u\1ELLO/'`, `sed 's/./b/2g'`, `sed 's/x*/-/2'`, `sed 's/x*/-/g'`, `sed 's/l*/x/g'`, `sed 's/l*/x/2g'`, `sed 's/.*/[&]/g'`, `sed 's/$/x/g;s/^/y/g'`,
	`sed q7`, `sed Q3`, `sed '2{p;q}'`, `sed '1,2{/2/d}'`, `sed -n '/2/,/3/!p'`, `sed '1{n;n;s/^/x/}'`, `sed '5,1d;2,1d'`, `sed -n '2,/1/p'`, `sed -n '2,3!{3,$p}'`, `sed -n 'x;p;x'`, `sed --posix 's/a\+/b/'`, `sed 's/l/b/;;s/1/d/;'`, `sed '1~3d'`, `sed '$d'`, `sed -n '2,${=;p}'`, `sed '$!{$!d}'`, `sed -n '/1/,+1{p}'`, `sed '/2/,~2d'`, `sed 'N;N;s/\n/,/g'`, `sed '2q;s/^/>/'`, `sed = in1`, `sed -n '$p' in1 empty`, `sed -n '$p' in1 nope in2 nope2`, `sed p nonl in2`, `sed '$a x' nonl`, `sed 'a x' nonl`, `sed -s '$a x' nonl in2`, `sed -n '$=' nonl in2`, `sed 'r in2' nonl`, `sed 'R in2' in1`, `sed '1w /dev/stdout' nonl`, `sed 'N;P;D' in2 nonl`, `sed n in2`, `sed N in2`,
	`sed '$!N;s/\n/-/' nonl`, `sed -i s/a/z/ nope`, `sed -i p`, `sed -i.bak s/l/z/ in1`, `sed -i.bak s/l/z/ in1 in2`, `sed -ibak_* s/l/z/ in1`, `sed --in-place=.old 1d in1`, `sed -n -i p d`, `sed p d`, `sed -n '1!G;h;$p' in2 nonl`, `sed -i '1q' in1`, `sed -i -n '2p' in1 in2`, `sed -i '$d' in1 in2`, `sed -i 'N;N;s/\n/+/g' in1 in2`, `sed -i '1w out' in1`, `sed -i -e '1i top' -e '$a end' in1 nonl`, `sed -s -n '1p;$p' in1 in2`, `sed -s F in1 in2`, `sed '2w out' in1`, `sed -n 's/l/X/w out' in1`, `sed -n '/2/w a b' in1`, `sed '1W out' in1`, `sed 'w out1' -e 'w out2'`, `sed -f script in1`, `sed -f script -e p in1`, `sed -nf script in1`, `sed -f badscript in1`, `sed -f nope in1`, `sed --expression=p --quiet in1`, `sed -n -e p -- in1`, `sed -nEe 's/(l)/<\1>/p' in1`, `sed -n '/start/,/end/p' blocks`, `sed '/start/,/end/d' blocks`, `sed -n '/start/,/end/{//!p}' blocks`, `sed -n '/start/{:a;n;/end/q;p;ba}' blocks`, `sed '/^$/N;/\n$/D' blanks`, `sed '/./,/^$/!d' blanks`, `sed '/^$/d' blanks`, `sed -e :a -e '$!N;s/\n=/ /;ta' -e 'P;D' joins`, `sed -e :a -e '/\\$/N;s/\\\n//;ta' cont`, `sed -e :a -e 's/^.\{1,10\}$/ &/;ta' in1`, `sed -e :a -e 's/\(.*[0-9]\)\([0-9]\{3\}\)/\1,\2/;ta' nums`, `sed '/\n/!G;s/\(.\)\(.*\n\)/&\2\1/;//D;s/.//' in1`, `sed -n '$!{h;d};H;x;p' in1`, `sed 's/é/E/g;y/à/A/;s/./[&]/g' utf`, `sed -n l utf`, `sed 's/\(.\)é/\1/' utf`, `sed -E 's/[[:upper:]]/(&)/g' blocks`, `sed 's/[^,]*,//2' csv`, `sed 's/,/\n/g;P;D' csv`, `sed -E 's/^([^,]*),([^,]*)/\2,\1/' csv`, `sed 's/"//g' csv`, `sed 's/\./,/g' nums`, `sed --debug p`, `sed -n '/a/,/b/p;/b/q' csv`, `sed 'c\' -e x`, `sed '1d;n;d'`, `sed '1!{x;G;}'`, `sed -z 'N;s/\x00/-/' nul`, `sed -z 's/^a/X/;$a end' nul`, `sed -z G nul`,
	`sed 's/l/e/e'`, `sed 'e ls'`, `sed '1e'`,
}

// sedEdges are ranges where n skips lines, and the end of a text without a newline.
var sedEdges = []string{
	`sed '3,$c x' in1`, `sed '2,$c x' in1`, `sed '/3/,$c x' in1`, `sed '2,/q/c x' in1`, `sed '2,5c x' in1`, `sed 's/l/X/2;s//<\1>/' in1`, `sed '/l/s//<\1>/' in1`, `sed -n 'l 7' seq`, `sed -zn 'l 7' nul`, `sed -s 'x;G' in1 in2`,
	`sed -n 'n;2,4p' seq`, `sed -n '3,4{=};n;n' seq`, `sed -n '2,4{=};n' seq`, `sed -n '2,3{=};n;n;n' seq`, `sed -n '2,/6/{=};n;n;n' seq`, `sed -n '2,2{=};n;n' seq`, `sed -n '2,+1{=};n;n' seq`, `sed -n '2,~4{=};n;n' seq`, `sed -n '2,1{=};n;n' seq`, `sed -n '2,${=};n;n;n;n;n' seq`, `sed -n '2,/3/!{=};n;n;n;n' seq`,
	`sed -n '2,~0p' seq`, `sed -n '/2/,+0p' seq`, `sed -n '/2/,~2p' seq`, `sed -n '3,~2p' seq`, `sed -n '/[258]/,6{=};n;n;n' seq`, `sed -n '/[1259]/,6{=};n;n;n' seq`, `sed -n '/[1259]/,2{=};n;n;n' seq`, `sed -n '/[15]/,+1{=};n;n;n' seq`, `sed -n '2~3,~2p' seq`, `sed '2~0,3d' seq`, `sed -n '0~3,~3p' seq`,
	`sed q nonl`, `sed '2q' nonl`, `sed -z q nonl`, `sed -z p nonl`, `sed -z 'c foo' nul`, `sed -z 'a foo' nul`, `sed -z 'i foo\nbar' nul`, `sed -z 'P;D' nul`, `sed -zn 'l;F;=' nul`, `sed -z 'r nonl' nul`, `sed -z 'R nonl' nul`, `sed 'R nonl' in1`, `sed 'R nonl' nonl`, `sed '$!{h;d};x;G' nonl`, `sed 'n;n;s/./x/' nonl`, `sed '$!N;P;D' nonl`, `sed -s 'N;s/\n/+/' nonl in1`, `sed 'N;s/\n/+/' nonl in1`, `sed -i 'N;s/\n/+/' nonl in2`,
}

var sedTree = []string{
	"in1=l1.\nl2*\nl3[\n", "seq=1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "in2=c\n", "nonl=a\nb", "empty=", "d/", "script=s/l/S/\n# a comment\n2{\n  p\n}\n$!b\ns/$/ last/\n", "badscript=p\nk\n", "blocks=one\nstart\nTwo\nend\nthree\nstart\nfour\n", "blanks=\n\na\n\n\n\nb\n\n",
	"joins=a\n=b\n=c\nd\n", "cont=a\\\nb\\\nc\nd\n", "nums=1234567\n12\n1.5.6\n", "utf=é à\nnaïve ü€\n", "csv=a,b,c\n\"x\",y\n,,\n", "nul=a\x00b\x00ab",
}

func TestSed(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range slices.Concat(sedScripts, sedEdges) {
		if strings.Contains(run, "--debug") || strings.HasSuffix(run, "e'") && strings.Contains(run, "e") && !strings.Contains(run, "{") && (strings.Contains(run, "/e'") || strings.Contains(run, "'1e'")) || strings.Contains(run, "'e ls'") {
			continue
		}
		cases = append(cases, commandtest.Case{Tree: sedTree, Run: run, Stdin: "l1.\nl2*\nl3[\n"})
	}
	commandtest.Compare(t, cases)
}

// TestSedRefusesToRunPrograms checks the error of the e command.
func TestSedRefusesToRunPrograms(t *testing.T) {
	s := commandtest.New(t, "/work")
	for _, run := range []string{"sed 's/l/ls/e'", "sed 'e ls'", "sed 1e"} {
		o := s.Exec("l\n", commandtest.SplitWords(run)...)
		if o.Code != 1 || o.Stdout != "" || !strings.Contains(o.Stderr, "not supported") {
			t.Errorf("%s: %+v", run, o)
		}
	}
}

// TestSedReadsToTheLastLine checks that $ is the last line of a file.
func TestSedReadsToTheLastLine(t *testing.T) {
	s := commandtest.New(t, "/work")
	s.WriteFile("f", strings.Repeat("line\n", 5)+"last\n")
	o := s.Exec("", "sed", "-n", "$p", "f")
	if o.Stdout != "last\n" {
		t.Errorf("%+v", o)
	}
}

// TestSedIsBounded runs scripts that grow or loop forever.
func TestSedIsBounded(t *testing.T) {
	for _, script := range []string{":a;s/x/xx/;ta", ":a;s/x/xx/g;ba", ":a;ba", "H;G;H;G;:a;G;h;ba", ":a;s/^/xxxxxxxx/;ta", "D;:a;x;ba", "s/x/" + strings.Repeat("&", 1000) + "/g;:a;s//&&/g;ta", "y/x/y/;:a;N;ba"} {
		t.Run(script[:min(len(script), 20)], func(t *testing.T) {
			commandtest.New(t, "/work").MustEndInTime("xxx\n", "sed", script)
		})
	}
}

func FuzzSed(f *testing.F) {
	for _, run := range sedScripts {
		args := commandtest.SplitWords(run)
		f.Add(args[len(args)-1], "l1.\nl2*\n\nl3[", false)
	}
	s := commandtest.New(f, "/work")
	f.Fuzz(func(t *testing.T, script, input string, ere bool) {
		if len(script) > 300 || len(input) > 300 {
			return
		}
		args := []string{"sed", "--sandbox"}
		if ere {
			args = append(args, "-E")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		o, _ := s.Run(ctx, strings.NewReader(input), nil, append(args, "-e", script)...)
		if o.Code == 134 {
			t.Fatalf("%q: %s", script, o.Stderr)
		}
	})
}
