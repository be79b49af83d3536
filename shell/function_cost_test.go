package shell

import (
	"runtime"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// TestFunctionsAreChargedWhatTheyUse compares the charge for a function with the memory of its tree and
// its closures.
func TestFunctionsAreChargedWhatTheyUse(t *testing.T) {
	for _, command := range []string{
		":;", "a;", "a b;", "a b c d e f g h;", "a&", "a|b;", "a|b|c|d|e;", "(a);", "{ a;};", "x=1;", "x=1 a;", "x=(1 2 3);", "a>b;", "a 2>&1 <c;", "$a;", "$a$b$c;", `"$a";`, "${a:-b};", "${a[1]};",
		"$((1+2));", "((x++));", "$(a);", "`a`;", "<(a);", "if a;then b;fi;", "while a;do b;done;", "for i in a b c;do d;done;", "for((;;));do a;done;", "case a in b)c;;esac;", "[[ a == b ]];", "[[ a && b || c ]];", "! a;", "a&&b||c;",
		"f(){ a;};", "a{b,c}d;", "a{1..9};", "a*b?c[de];", "~/a;", "a\\b'c'\"d\";", "a <<< b;", "a=b c=d e=f g;", "$a[$b];", "\n:", "x[1+2]=3;", "time a;", "select i in a;do b;done;", "coproc a;", "$'a\\n';", `"a$b c${d}e$(f)";`,
	} {
		text := "f() { :;" + strings.Repeat(command, 4_000) + " :; }"
		before := liveHeap()
		file, err := syntax.Parse(text, syntax.Options{})
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		d := file.Stmts[0].First.Cmds[0].Body.(*syntax.FuncDecl)
		f := &function{name: "f", decl: d, body: (&compiler{}).cmd(d.Body)}
		used := liveHeap() - before
		if cost := f.memoryCost(); cost < used {
			t.Errorf("%s: %d bytes are charged for each, of %d", command, cost/4_000, used/4_000)
		}
		runtime.KeepAlive(f)
	}
}

// liveHeap returns the bytes of what is reachable.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
