package data_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestBC(t *testing.T) {
	var cases []commandtest.Case
	for _, src := range []string{
		"1+1", "1/3", "scale=5;1/3;2/3;-1/3;0.5;-0.5", "2^-2;scale=3;2^-2", "5%3;-5%3;5.5%2;scale=2;5.5%2;7%0.3", "-2^2;2^3^2;- 3", "sqrt(2);sqrt(0.25);scale=10;sqrt(2);sqrt(4)", "1.50*1.5;1.5+2.25;1.5-2.25",
		"length(123.45);length(.05);length(0);length(0.0);scale(1.234);length(100);length(-5)", "obase=16;255;0.5;-255;1000;0.1", "ibase=16;FF;A;10;1F.8", "ibase=2;1010;2;12;111.101", "obase=2;10;0.1;.5;0", "obase=100;12345;0.5;-3;0", "obase=20;399", "a=1;a;(a=2);a++;a;++a;a+=5;a;a--;a-=1;a*=3;a/=2;a%=4;a^=2;a",
		"1<2;1==1;2!=2;!1;1&&0;1||0;a=1<2;a", "\"hi\";1", "print \"a\\tb\\n\",1+1,\"\\n\"", "if(1) 2 else 3", "if(0) 2 else 3", "if (0) {2} else {3}", "define f(x){auto a;a=x;return a*2}\nf(4)", "define f(x) {\n auto a, b[]\n a = x; b[1] = 2\n return (a * b[1])\n}\nf(4)", "a[1]=5;a[1];a[2];a", "1/0\n5", "1+\n7", "2+2 +\n3", "2^1000",
		"1;quit;2", "1;halt;3", "0;00;-0;0.00;.0;-0.00", "1 /* c */ + 1 # foo\n2", "/* long\ncomment */ 3", "scale=2;1.999/1;(1.005+.001)/1", "10^20/3", "define void p(x){print x,\"\\n\"}\np(3)", "a.b\n1", "3 4\n1", "x y\n5", "if (1) {2}\nelse 3\n4", "1 = 2\n1", "sqrt(-1);3\n4", "return 5\n1", "break\n1", "a=b=3;a;b", "1,2\n1", "last;5;last*2;.",
		"\"a\nb\"", "auto x\n1", "2^0.5;2^.5", "1e5\n1", "A;FF;1F", "f(3)\n1", "e(1)\n1", "scale=-1;scale", "ibase=1;ibase=40;obase=1", "a[-1]=2\n1", "2^1000000000000\n1", "while(1){if(i++>2) break;i}", "for(i=0;i<5;i++){if(i==2) continue;i}", "define f(a[]){a[0]=7;return 1}\nb[0]=1;f(b[]);b[0]", strings.Repeat("9", 77) + "*10", "1.234567890*9.87654321", ".5*.5;scale=1;.55*.55", "10%0\n1",
		"x=-5;x;-x;x^2;-x^3", "3>2>1", "!0;!5", "(1+2)*3;((4))", "1;\n\n;2", "{1;2}", "{\n1\n2\n}", "define f(n){if(n<2) return 1;return n*f(n-1)}\nf(20);f(30)", "define f(x){x=x+1;y=x;return y}\ny=5;f(1);y", "define g(){return z}\ndefine f(z){return g()}\nz=1;f(9)", "for(;;){if(++i>3)break};i", "while(0) 1;2", "i=3;while(i)i--\ni", "scale=3\n1/7\nscale=6\n1/7", "1.5^3;1.5^-1;scale=4;1.5^3;1.5^-1", "100000000000000000000*100000000000000000000/3", "0.1+0.2;1-1.0", "12345678901234567890 % 97", "scale=0;7/2;-7/2;7.9/1", "a=5 ; a", "print 5;print \"x\";6", "print \"q\\q\\\\n\"\n1", "define f(x) { return x*x; } f(12)", "define f(x) { return x*x; }; f(12); 3", "define f(){}\nf()", "define f(x){return}\nf(1)", "f(1,2)", "define f(x){return x}\nf(1,2)\n1", "define f(x){return x}\nf(1)+f(2)*f(3)", "x=1;{x;x=2;x};x", "1 \\\n+ 2", "12\\\n34", "if (1)\n2\n3", "while (j<2)\n{\nj\nj=j+1\n}", "scale=20;1/3*3", "n=10;n;n=n/4;n", "obase=16;ibase=16;FF;ibase=A;10", "obase=8;64;obase=10;64", "define f (a, b) { return a + b }\nf(1, 2)", "k = 3 * (2 + 1) - 4 / 2 ^ 2 % 3;k", "a=0.5;a;a*2;a/2", "1==1.0;1.0", "scale=2;100/7*7;100*7/7", "length(12.500);scale(12.500)", "((1)", "1)", "define f(x) 5", "print", "a[0]++;a[0]", "a[b=2]=3;a[2];b", "+5", "2 ^ 10 / 3", "999999999999^2", "1 && 2 || 0", "! 1 == 2", "scale=4;a=2;a^-1;a^0;0^0", "scale=5;sqrt(1);sqrt(0);sqrt(1.00);2+sqrt(0.000)", "x=0;0&&x++;1||x++;x", "5&&0||3", "obase=16;10^30;.1+.2;-.5", "obase=7;123.456;0.5", "z\nz=7\nz", "@", "1;2 $ 3\n4",
	} {
		cases = append(cases, commandtest.Case{Name: src, Run: "bc", Stdin: src + "\n", Loose: true})
	}
	commandtest.Compare(t, cases)
	commandtest.Compare(t, commandtest.Cases([]string{"p=a=6*7\na\n", "q=a+1\nquit\n", "bad=1+\n2\n"}, "3+4\na\n", "bc p", "bc p q", "bc -q p", "bc nofile", "bc bad"))
	commandtest.Compare(t, []commandtest.Case{{Run: "bc", Stdin: "2^300\n", Env: []string{"BC_LINE_LENGTH=0"}}, {Run: "bc", Stdin: "2^300\n", Env: []string{"BC_LINE_LENGTH=20"}}, {Run: "bc", Stdin: "1+1"}})
}

func TestBCMath(t *testing.T) {
	var cases []commandtest.Case
	for _, src := range []string{
		"e(0);e(1);e(-1);e(10);e(.5);e(-10);e(100);e(.00001)", "l(1);l(2);l(10);l(.5);l(0);l(-1);l(1000000)", "s(0);s(1);s(-1);s(3);s(10);s(.1)", "c(0);c(1);c(-1);c(3);c(10)", "a(0);a(1);a(-1);a(.5);a(10);a(.1);a(-10)", "j(0,1);j(1,1);j(2,.5)",
		"scale=5;e(1);l(2);s(1);c(1);a(1);c(0);e(0)", "scale=0;e(1);l(2);s(1)", "scale=50;4*a(1);e(1);l(2);s(1);c(1)", "e(2)*2;e(1)^2;l(3)/l(2)", "scale;1/3", "scale=30;s(100);c(100);e(3.7);l(7.3);a(.33)", "e(l(7));l(e(3))", "pi=4*a(1);s(pi/6);c(pi/3)", "define f(x){return e(x)}\nf(2)", "define e(x){return 1}\ne(5)", "sqrt(2);2^.5\n", "l(2.5)/l(10)", "e(20);e(-20)",
	} {
		cases = append(cases, commandtest.Case{Name: src, Run: "bc -l", Stdin: src + "\n", Loose: true})
	}
	commandtest.Compare(t, cases)
}

func TestDC(t *testing.T) {
	var cases []commandtest.Case
	for _, src := range []string{
		"1 2+p", "5k 1 3/p", "10 3~ f", "2 10^p 2 3 10|p", "[hello]p", "1 2 3 f", "c z p", "1 d+p", "1 2 r f", "16o 255 p", "2i 101 p", "9 v p", "_5 p", "1 sa la p", "1 Sa 2 Sa La p La p", "[lap]sb 5 sa lbx", "0 sa [la 1+ d sa p la 5>b]sb lbx", "K p O p I p", "3.14159 Z p 3.14 X p", "[abc] Z p", "65 a p", "[ab]P 65P 10P", "1 0/", "+", "1 2 3 :a 3;ap",
		"1.5 1.25*p", "4 k 2 v p", "[[2Q]x 3p]x 4p", "# c\n5p", "1 n 2 n", "7 2 % p", "0 1 - p", ".5p", "[p]sa 1 1=a 3 3 3=a", "FFp", "1.20p", "1 2 3 3R f", "1 2 3 _3R f", "3 0 ^ p", "x", "2 300^p", "[1 2\n3]p", "10 5 3 f r f", "1 2 !<a", "[ok]sa 1 2 <a x", "[[ok]p]sa 1 2 >a", "[[ok]p]sa 2 1 >a", "[[ok]p]sa 1 1 !=a 1 2 !=a", "3 2 / p 2k 3 2 / p", "_1 v", "1 0 %", "100 8o p", "0.1 0.2 + p", "la p", "5 0:a 0;a p", "[a]1+", "99 98 97 z p", "1k 5.55 1.1 * p", "16i FF p", "20o 399 p", "5 ip", "1 k 3.7 _2 * p", "2 _3 ^ p 5k 2 _3 ^ p",
	} {
		cases = append(cases, commandtest.Case{Name: src, Run: "dc", Stdin: src + "\n", Loose: true})
	}
	commandtest.Compare(t, append(cases, commandtest.Cases([]string{"f=1 2+p\n"}, "5p\n", "dc f", "dc -e '3 4*p'", "dc -f f -e 'f'", "dc nofile", "dc --expression=5p")...))
}

// TestExprDepth checks that deeply nested parentheses are an error.
func TestExprDepth(t *testing.T) {
	args := []string{"expr"}
	for range 100000 {
		args = append(args, "(")
	}
	if o := commandtest.New(t, "/w").Exec("", append(args, "1")...); o.Code != 2 {
		t.Errorf("%+v", o)
	}
}

// TestExprBoundsNumbers checks that numbers which take seconds to parse are refused, not those that Linux
// passes as arguments.
func TestExprBoundsNumbers(t *testing.T) {
	m := commandtest.New(t, "/w")
	large := strings.Repeat("9", maxLinuxArgument+1)
	if o := m.Exec("", "expr", large, "*", large); o.Code != 3 || o.Stdout != "" || o.Stderr != "expr: number of more than 131072 digits\n" {
		t.Errorf("status %d, %d bytes of output, errors %.100q", o.Code, len(o.Stdout), o.Stderr)
	}
	long := strings.Repeat("9", 100_000)
	if o := m.Exec("", "expr", long, "*", long); o.Code != 0 || len(o.Stdout) != 200_001 {
		t.Errorf("status %d, %d bytes of output, errors %.100q", o.Code, len(o.Stdout), o.Stderr)
	}
}

// maxLinuxArgument is the size of the longest argument that Linux passes to a program.
const maxLinuxArgument = 128 << 10

func FuzzBC(f *testing.F) {
	for _, s := range []string{"1+1\n", "scale=5;1/3\n", "define f(x){auto a;a=x;return a*2}\nf(4)\n", "for(i=0;i<3;i++){i}\n", "obase=16;ibase=2;1010\n", "a[1]=5;a[1]++\n", "print \"x\\n\",1\n", "s(1);c(1);l(2);e(.5);a(1)\n", "/* c */ if (1) {2} else 3 # x\n", "sqrt(2)^-3%.7\n", "\"abc"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) { commandtest.RunHostile(t, commandtest.New(t, "/w"), src, "bc", "-l") })
}

func FuzzDC(f *testing.F) {
	for _, s := range []string{"1 2+p", "5k 1 3/p", "[lap]sb 5 sa lbx", "[q]x", "16o 255p", "2 3 5|p", "1 2 3 R f", "1 0:a 0;ap", "[1p]sa 1 1=a", "_5 ZXp", "9v p 10P"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if !strings.ContainsAny(src, "!") {
			commandtest.RunHostile(t, commandtest.New(t, "/w"), src, "dc")
		}
	})
}

func FuzzExpr(f *testing.F) {
	for _, s := range []string{"1 + 2", "( 2 + 3 ) * 4", "abc : a\\(.*\\)", "length hello", "substr hello 2 3", "index ab b", "match aab a*", "a | b & c", "1 / 0", "+ length", "3 < 4 = 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		commandtest.RunHostile(t, commandtest.New(t, "/w"), "", append([]string{"expr"}, strings.Fields(s)...)...)
	})
}
