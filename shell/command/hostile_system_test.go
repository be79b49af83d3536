package command_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestHostileInputEndsInTime gives commands input that would take them forever,
// or all memory.
func TestHostileInputEndsInTime(t *testing.T) {
	deep := func(open, close string, n int) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(close, n)
	}
	for _, c := range []struct{ name, stdin, run string }{
		{"PowerOfPowers", "9^9^9^9\n", "bc"},
		{"Forever", "while(1) i++\n", "bc"},
		{"Growing", "x=7;while(1) x=x*x\n", "bc"},
		{"Recursion", "define f(x){return f(x+1)}\nf(1)\n", "bc"},
		{"Scale", "scale=100000000;1/3\n", "bc"},
		{"ScaleOfE", "scale=100000;e(1)\n", "bc -l"},
		{"Pi", "scale=900;for(;;) a(1)\n", "bc -l"},
		{"Parentheses", deep("(", ")", 100000) + "\n", "bc"},
		{"Signs", strings.Repeat("-", 100000) + "1\n", "bc"},
		{"Powers", strings.Repeat("2^", 100000) + "1\n", "bc"},
		{"Sum", strings.Repeat("1+", 100000) + "1\n", "bc"},
		{"Braces", strings.Repeat("{", 100000) + "\n", "bc"},
		{"Array", "while(1) a[i++]=1\n", "bc"},
		{"LongNumber", strings.Repeat("9", 3<<20) + "\n", "bc"},
		{"Bases", "obase=2;2^300000\n", "bc"},
		{"Macro", "[lax]sa lax\n", "dc"},
		{"DeepMacro", "[lax1]sa lax\n", "dc"},
		{"Pushing", "[1lax]sa lax\n", "dc"},
		{"Dup", "[ddlax]sa 1lax\n", "dc"},
		{"Square", "9[d*lax]salax\n", "dc"},
		{"Brackets", strings.Repeat("[", 1<<20), "dc"},
		{"Root", "100000k 2v\n", "dc"},
		{"Modexp", "2 10 99999^ 10 99999^ 7+|p\n", "dc"},
		{"Factor", "340282366920938463463374607431768211297\n115792089237316195423570985008687907853269984665640564039457584007913129639937\n170141183460469231731687303715884105757\n", "factor"},
		{"Seq", "", "seq 1 inf"},
		{"SeqTiny", "", "seq 0 1e-300 1"},
		{"SeqBig", "", "seq 1 99999999999999999999999"},
		{"SeqFormat", "", "seq -f %1000000000f 3"},
		{"Yes", "", "yes"},
		{"Shuf", "", "shuf -r -i 1-10"},
		{"ShufRange", "", "shuf -i 1-100000000000"},
		{"Uuids", "", "uuidgen -C 99999999999"},
		{"Xargs", strings.Repeat("a ", 200000), "xargs -n1 printenv"},
		{"XargsLong", strings.Repeat("a", 4<<20), "xargs printenv"},
		{"Zeros", "", "base64 /dev/zero"},
		{"Hash", "", "sha512sum /dev/zero"},
		{"Blake", "", "b2sum /dev/zero"},
		{"Sum", "", "cksum /dev/zero"},
		{"Check", "", "md5sum -c /dev/zero"},
		{"Tsort", "", "tsort /dev/zero"},
		{"Numfmt", "", "numfmt --to=si -z --invalid=ignore"},
		{"Subst", "", "shuf /dev/zero"},
		{"Awk", "", "awk 1 /dev/zero"},
		{"AwkRegexRS", "", "awk -vRS=[^x]+x 1 /dev/zero"},
		{"AwkYes", "", "awk 'BEGIN { while (1) print }'"},
		{"Sleep", "", "sleep infinity"},
		{"Timeout", "", "timeout 1d sleep 1d"},
		{"Tee", "", "tee /dev/full /dev/null"},
		{"Cal", "", "cal -A 1200"},
		{"EnvS", "", "env -S '" + strings.Repeat("a ", 10000) + "'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := commandtest.New(t, "/w")
			commandtest.RunHostile(t, s, c.stdin, commandtest.SplitWords(c.run)...)
			if n := s.Kernel.Memory(); n != 0 {
				t.Errorf("%d bytes are still charged", n)
			}
		})
	}
}

// TestHostileArguments gives programs that run others, or walk trees, arguments that would never end.
func TestHostileArguments(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("a", strings.Repeat("1\n2\n", 20000))
	s.WriteFile("b", strings.Repeat("2\n1\n", 20000))
	s.WriteFile("c", strings.Repeat("2\n2\n1\n", 15000))
	for _, line := range []string{
		"tar -I yes -tf a", "tar -I cat -xf /dev/zero", "tar --delete -f /dev/zero a", "tar --delete -f a a", "tar -cf x --transform s/\\(a*\\)*\\1b/x/ a", "tar -cf x --transform s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g;s/./&&&&&&&&&/g a", "awk -i inplace {while(1)print} a", "parallel -a /dev/zero echo", "parallel echo :::: /dev/zero", "parallel -0 -a /dev/zero echo", "parallel --colsep (a*)*b echo :::: a", "parallel echo :::: a :::: a :::: a", "fd (a+)+$", "fd -x yes", "fd -X yes", "diff3 /dev/zero a b", "diff3 a b c", "diff3 -m a b c", "sdiff a b", "sdiff /dev/zero /dev/zero",
	} {
		commandtest.RunHostile(t, s, "", commandtest.SplitWords(line)...)
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
