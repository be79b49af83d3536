package data_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

var jqFiles = []string{
	"a.json=[1]\n{\"a\":2}\n", "b.json=\"x\"\n", "bad.json={\"a\":1} x\n", "cut.json={\"a\":1", "empty.json=", "lines=a\nb\nlast",
	"prog=# adds\n.[0] + 1\n", "lib/m.jq=def f: 42; def g($x): $x + 1;", "lib/d.json=1 2\n", "lib/n.jq=import \"m\" as m; def h: m::f + 1;",
	"nested.json={\"b\":[1,{\"c\":null}],\"a\":{\"z\":true,\"y\":1.5}}\n", "n.json=1 2 3\n\n4\n",
}

// TestJqAgreesWithTheRealOne compares the command line with the jq of the host.
func TestJqAgreesWithTheRealOne(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"jq . a.json", "jq .a a.json", "jq -c . nested.json", "jq . nested.json", "jq -S . nested.json", "jq -Sc . nested.json",
		"jq --tab . nested.json", "jq --indent 1 . nested.json", "jq --indent 0 . nested.json", "jq --indent 7 . nested.json", "jq --indent 8 . a.json",
		"jq -r . b.json", "jq -j . b.json a.json", "jq -a . b.json", "jq -s . a.json b.json", "jq -cs . a.json b.json", "jq -s . empty.json",
		"jq . empty.json", "jq -n 1,2", "jq -n input a.json", "jq -cn [inputs] a.json b.json", "jq -c [.,input] n.json", "jq -R . lines", "jq -Rs . lines",
		"jq -Rc [.,input] lines", "jq -Rnc [inputs] lines", "jq -c --stream . nested.json", "jq -cn --stream [inputs] nested.json",
		"jq -c --stream -s . a.json", "jq -n --seq -c 1,2", "jq -e . a.json", "jq -e .b nested.json", "jq -e empty a.json", "jq -e .[0]? a.json",
		"jq -ne null,1", "jq -ne 1,null", "jq -ne false", "jq .a a.json missing.json", "jq . missing.json a.json", "jq . missing.json",
		"jq -f prog a.json", "jq -f missing a.json", "jq -c --arg x 1 [$x,$ARGS] b.json", "jq -c --argjson x '{\"k\":1}' $x b.json", "jq --argjson x { . b.json",
		"jq --arg x", "jq -c --slurpfile x a.json $x b.json", "jq --rawfile x lines $x b.json", "jq -n --slurpfile x missing .", "jq -nc $ARGS --args a b",
		"jq -nc '$ARGS' --jsonargs 1 '[2]' --args c", "jq -nc --arg a 1 --arg a 2 $a,$ARGS.named", "jq -L lib -n 'import \"m\" as m; m::f, m::g(1)'",
		"jq -L lib -nc 'import \"d\" as $d; $d, $d::d'", "jq -Llib -n 'include \"m\"; f'", "jq -L lib -n 'import \"n\" as n; n::h'", "jq -L lib -n 'import \"zz\" as n; 1'",
		"jq -C . nested.json", "jq -cC . nested.json", "jq -CS . nested.json", "jq -n 'halt'", "jq -n '\"bye\\n\"|halt_error(3)'", "jq -n '{}|halt_error'",
		"jq -n '1,halt_error,2'", "jq input_filename,input_line_number n.json", "jq .a.b.c nested.json b.json", "jq -x . a.json", "jq --foo .", "jq",
		"jq -n '{'", "jq -n foo", "jq -n 'error(\"x\")'", "jq -n 'error({a:1})'", "jq -rn '@csv \"\\([1,\"a\"])\"'", "jq -n debug,stderr", "jq -nr '\"a\\nb\"'",
		"jq . - a.json", "jq -c 'limit(2;inputs)' n.json", "jq 'first(inputs)' n.json", "jq -nr 'input_filename,(inputs|input_filename)' a.json b.json",
		"jq -n '[limit(3;range(10))]|length' -c", "jq --unbuffered -c . a.json", "jq . -- a.json", "jq -nrj '1,\"x\",[1]' -c", "jq -n '$ENV.FOO,env.FOO'",
		"jq 'to_entries[]|select(.value>1)' a.json", "jq -c 'paths' nested.json", "jq '.b[1].c=5|.a|=with_entries(.value|=tostring)' nested.json",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: jqFiles, Stdin: "{\"in\":1}\n", Loose: true, Env: []string{"FOO=bar"}})
	}
	commandtest.Compare(t, cases)
}

func TestJqKnowsTheLocalTime(t *testing.T) {
	var cases []commandtest.Case
	for _, program := range []string{`1425599621|localtime|.[:5]`, `1436399621|strflocaltime("%c")`, `1425599621|gmtime|strflocaltime("%H")`, `1425599621|localtime|mktime`} {
		cases = append(cases, commandtest.Case{Run: "jq -nc '" + program + "'", Env: []string{"TZ=EST5EDT,M3.2.0,M11.1.0"}, Loose: true})
	}
	commandtest.Compare(t, cases)
	s := commandtest.New(t, "/work")
	s.Env = append(s.Env, "TZ=EST5EDT,M3.2.0,M11.1.0")
	if got := s.Exec("", "jq", "-nc", `1436399621|[strflocaltime("%H:%M %Z %z"),strftime("%H:%M %Z %z")]`); got.Stdout != `["19:53 EDT -0400","23:53 UTC +0000"]`+"\n" {
		t.Errorf("zones: %q", got.Stdout)
	}
}

func TestJqReportsErrors(t *testing.T) {
	s := commandtest.New(t, "/work")
	commandtest.MakeTree(t, s.FS, "/work", jqFiles)
	for _, test := range []struct {
		args   []string
		stdin  string
		stderr string
		code   int
	}{
		{[]string{"jq", ".a"}, "1\n", "jq: error (at <stdin>:1): Cannot index number with string \"a\"\n", 5},
		{[]string{"jq", ".[0]", "n.json"}, "", "jq: error (at n.json:1): Cannot index number with number\njq: error (at n.json:1): Cannot index number with number\njq: error (at n.json:1): Cannot index number with number\njq: error (at n.json:3): Cannot index number with number\n", 5},
		{[]string{"jq", "-n", "error(null)"}, "", "jq: error (at <unknown>) (not a string): null\n", 5},
		{[]string{"jq", "."}, "[1,2", "jq: parse error: Unfinished JSON term at EOF at line 1, column 4\n", 5},
		{[]string{"jq", ".", "missing"}, "", "jq: error: Could not open missing: No such file or directory\n", 2},
		{[]string{"jq", "--raw-output0", "."}, "\"a\\u0000\"", "jq: error (at <stdin>:0): Cannot dump a string containing NUL with --raw-output0 option\n", 5},
		{[]string{"jq", "-n", "1 +"}, "", "jq: error: syntax error, unexpected end of file (Unix shell quoting issues?) at <top-level>, line 1:\n1 +\njq: 1 compile error\n", 3},
	} {
		got := s.Exec(test.stdin, test.args...)
		if got.Stderr != test.stderr || got.Code != test.code {
			t.Errorf("%q: %q, code %d, want %q, code %d", test.args, got.Stderr, got.Code, test.stderr, test.code)
		}
	}
}

// TestJqHoldsNoMoreThanItsInput reads 48 MB of values with 64 MiB of memory, and
// checks that endless programs stop at their deadline.
func TestJqHoldsNoMoreThanItsInput(t *testing.T) {
	s := commandtest.New(t, "/work")
	s.WriteFile("big", strings.Repeat(`{"id":12345,"name":"somebody","tags":["a","b"]}`+"\n", 1<<20))
	if got := s.Exec("", "jq", "-n", "reduce inputs as $x (0; . + 1)", "big"); got.Stdout != "1048576\n" {
		t.Errorf("counted %q, %q", got.Stdout, got.Stderr)
	}
	s.MustEndInTime("", "jq", "-n", "until(false; .)")
}
