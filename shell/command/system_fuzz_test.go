package command

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// hold runs a command with hostile input under a deadline and fails if it
// goes on much longer. The kernel holds the memory.
func hold(t *testing.T, s *sandbox, stdin string, args ...string) outcome {
	t.Helper()
	const deadline = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	start := time.Now()
	o, _ := s.run(ctx, strings.NewReader(stdin), io.Discard, args...)
	if took := time.Since(start); took > deadline+10*time.Second { // the machine may be busy: far above the promise, far below a hang
		t.Errorf("%q took %v", args, took)
	}
	if list := s.k.Incidents(); len(list) > 0 {
		t.Fatalf("%q with %.200q: %s\n%s", args, stdin, list[0].Value, list[0].Stack)
	}
	return o
}

// TestHostileInputEndsInTime gives commands what would take them for ever,
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
			s := newSandbox(t, "/w")
			hold(t, s, c.stdin, words(c.run)...)
			if n := s.k.Memory(); n != 0 {
				t.Errorf("%d bytes are still charged", n)
			}
		})
	}
}

// TestExprDepth checks that parentheses end before the stack does.
func TestExprDepth(t *testing.T) {
	args := []string{"expr"}
	for range 100000 {
		args = append(args, "(")
	}
	if o := newSandbox(t, "/w").exec("", append(args, "1")...); o.Code != 2 {
		t.Errorf("%+v", o)
	}
}

func FuzzBC(f *testing.F) {
	for _, s := range []string{"1+1\n", "scale=5;1/3\n", "define f(x){auto a;a=x;return a*2}\nf(4)\n", "for(i=0;i<3;i++){i}\n", "obase=16;ibase=2;1010\n", "a[1]=5;a[1]++\n", "print \"x\\n\",1\n", "s(1);c(1);l(2);e(.5);a(1)\n", "/* c */ if (1) {2} else 3 # x\n", "sqrt(2)^-3%.7\n", "\"abc"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) { hold(t, newSandbox(t, "/w"), src, "bc", "-l") })
}

func FuzzDC(f *testing.F) {
	for _, s := range []string{"1 2+p", "5k 1 3/p", "[lap]sb 5 sa lbx", "[q]x", "16o 255p", "2 3 5|p", "1 2 3 R f", "1 0:a 0;ap", "[1p]sa 1 1=a", "_5 ZXp", "9v p 10P"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if !strings.ContainsAny(src, "!") {
			hold(t, newSandbox(t, "/w"), src, "dc")
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2024-01-15 10:30:15.5 +0100", "next monday", "2 days ago", "@-1.5", "15 jan 2024", "jan 15, 2024 10pm", "12/25/24", "20240115 1030", "TZ=\"Asia/Tokyo\" now", "third week (x)", "Mon, 15 Jan 2024 10:30:00 UTC+2", "1 fortnight hence"} {
		f.Add(s)
	}
	now := time.Date(2024, 1, 15, 10, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := parseDate(s, now, time.UTC)
		if !ok || d.Year() < 1000 || d.Year() > 9999 {
			return
		}
		again, ok := parseDate(d.UTC().Format("2006-01-02 15:04:05.000000000 +0000"), now, time.UTC)
		if !ok || !again.Equal(d) {
			t.Errorf("%q is %v, which reads as %v", s, d, again)
		}
	})
}

func FuzzExpr(f *testing.F) {
	for _, s := range []string{"1 + 2", "( 2 + 3 ) * 4", "abc : a\\(.*\\)", "length hello", "substr hello 2 3", "index ab b", "match aab a*", "a | b & c", "1 / 0", "+ length", "3 < 4 = 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hold(t, newSandbox(t, "/w"), "", append([]string{"expr"}, strings.Fields(s)...)...)
	})
}
