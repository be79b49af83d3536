//go:build unix

package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// By how much a hostile command may exceed its limits.
const (
	overtime   = 100 * time.Millisecond // CPU time, of all threads together, after the deadline
	overmemory = 32 << 20
)

// The limits of a hostile command.
const (
	hostileDeadline = 400 * time.Millisecond
	hostileMemory   = 32 << 20
	hostileDisk     = 8 << 20
)

// nestText returns open, n times, then middle, then shut, n times.
func nestText(n int, open, middle, shut string) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(shut, n)
}

// hostile are commands that try to exceed their limits: each kind of loop, growth, nesting and population.
var hostile = []struct{ name, script string }{
	{"LoopWhile", "while :; do :; done"},
	{"LoopFor", "for ((;;)); do :; done"},
	{"LoopUntil", "until false; do x=1; done"},
	{"LoopArithmetic", "while ((1)); do ((i++)); done"},
	{"LoopInBackground", "while :; do :; done & while :; do :; done & wait"},
	{"LoopIgnoringSignals", "trap '' TERM INT HUP QUIT EXIT; while :; do :; done"},
	{"LoopInTrap", "trap 'while :; do :; done' EXIT; exit"},
	{"LoopInSubstitution", "x=$(while :; do :; done)"},
	{"LoopOfSubshells", "while :; do (:); done"},
	{"LoopOfPrograms", "while :; do /bin/true; done"},
	{"LoopEval", "f='eval \"$f\"'; eval \"$f\""},
	{"LoopSource", "echo '. /tmp/s' > /tmp/s; . /tmp/s"},
	{"LoopScript", "printf '#!/bin/sh\\n/tmp/me\\n' > /tmp/me; chmod +x /tmp/me; /tmp/me"},
	{"LoopAlias", "shopt -s expand_aliases; alias a='a a'; a"},
	{"LoopYes", "yes > /dev/null"},
	{"LoopCatZero", "cat /dev/zero > /dev/null"},
	{"LoopReadZero", "read x < /dev/zero"},
	{"LoopTrRandom", "tr -d x < /dev/urandom > /dev/null"},
	{"LoopSelfFeedingFile", "echo x > /tmp/f; cat /tmp/f >> /tmp/f; tail -f /tmp/f >> /tmp/f"},
	{"LoopFifo", "mkfifo /tmp/p; cat /tmp/p"},
	{"LoopDeadlock", "mkfifo /tmp/a /tmp/b; cat /tmp/a > /tmp/b & cat /tmp/b > /tmp/a"},
	{"LoopSleep", "sleep infinity"},
	{"LoopWait", "sleep 1000 & wait"},
	{"LoopSeq", "seq 1 0.0000001 100000000000 > /dev/null"},
	{"LoopAwk", "awk 'BEGIN { while (1); }'"},
	{"LoopAwkGetline", "awk 'BEGIN { while ((getline x < \"/dev/zero\") >= 0); }'"},
	{"LoopJq", "jq -n 'until(false; .)'"},
	{"LoopJqRecursion", "jq -n 'def f: f; f'"},
	{"LoopJqRange", "jq -n 'range(infinite)' > /dev/null"},
	{"LongJqTime", "jq -n '(\"%c\" * 400000) as $f | now | strftime($f) | length'"},
	{"LongPromptTime", "y=\"\\\\D{$(printf '%%c%.0s' {1..300000})}\"; while :; do x=${y@P}; done"},
	{"LongWordList", "seq 1 400000 > f; while :; do grep -c -F -f f /dev/null; done"},
	{"LongFormatList", "x=$(yes 1.1 | head -n 400000 | paste -sd,); while :; do join -o \"$x\" /etc/passwd /etc/passwd > /dev/null; done"},
	{"LoopSed", "echo x | sed ':a;ba'"},
	{"LoopBc", "echo 'while (1) { x = 1 }' | bc"},
	{"LoopBcPower", "echo '9^9^9^9' | bc | tail -c 10"},
	{"LoopExpr", "echo $(( 9 ** 9 ** 9 ))$(expr 99999999999999999999 '*' 99999999999999999999); while expr 1 > /dev/null; do :; done"},
	{"LoopFindExec", "mkdir -p /tmp/t/{1..9}/{1..9}/{1..9}; while :; do find /tmp/t -exec true \\; ; done"},
	{"LoopXargs", "yes | xargs -n 1 true"},
	{"LoopFactor", "factor 170141183460469231731687303715884105727"},
	{"LoopDigits", "x=$(head -c 1000000 /dev/zero | tr '\\0' 9); while :; do expr $x '*' $x; factor $x; done > /dev/null 2>&1"},
	{"LoopShuf", "shuf -r -i 1-2 > /dev/null"},
	{"LoopTimeout", "timeout 1000 sh -c 'while :; do :; done'"},

	{"GrowString", "x=x; while :; do x=$x$x; done"},
	{"GrowStringAppend", "while :; do x+=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"},
	{"GrowArray", "while :; do a+=(x y z x y z x y z x y z); done"},
	{"GrowArraySparse", "a[9223372036854775807]=1; a[4611686018427387904]=1; for ((i=0;;i+=1000003)); do a[i]=$i; done"},
	{"GrowAssoc", "declare -A a; for ((i=0;;i++)); do a[k$i]=$i; done"},
	{"GrowReplace", "x=$(printf '%01000d' 0); while :; do x=${x//0/$x}; done"},
	{"GrowBraces", "echo {1..1000000000} > /dev/null"},
	{"GrowBracesNested", "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} > /dev/null"},
	{"GrowPrintf", "printf '%1000000000d' 1 > /dev/null"},
	{"GrowPrintfVariable", "printf -v x '%0999999999d' 1"},
	{"GrowSubstitution", "x=$(yes)"},
	{"GrowSubstitutionZero", "x=$(cat /dev/zero | tr '\\0' x)"},
	{"GrowRead", "read -r x < <(tr '\\0' x < /dev/zero)"},
	{"GrowMapfile", "mapfile a < <(yes)"},
	{"GrowHereString", "x=x; while :; do x=$(cat <<< \"$x$x\"); done"},
	{"GrowFunctions", "for ((i=0;;i++)); do eval \"f$i() { echo a b c d e f g h; }\"; done"},
	{"GrowPositional", "set -- x; while :; do set -- \"$@\" \"$@\"; done"},
	{"GrowIFS", "x=$(printf '%0100000d' 0); IFS=0; for ((i=0;;i++)); do a=($x$x$x$x$x$x$x$x$x); b+=(\"${a[@]}\"); done"},
	{"GrowSort", "yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | sort > /dev/null"},
	{"GrowTac", "yes | tac > /dev/null"},
	{"GrowUniqLine", "tr '\\0' x < /dev/zero | uniq > /dev/null"},
	{"GrowWcLine", "tr '\\0' x < /dev/zero | grep -c y"},
	{"GrowSed", "echo x | sed ':a;s/x/xx/g;ta'"},
	{"GrowSedHold", "yes | sed -n 'H'"},
	{"GrowAwkString", "awk 'BEGIN { x = \"x\"; while (1) x = x x }'"},
	{"GrowAwkArray", "awk 'BEGIN { while (1) a[i++] = i \"x\" }'"},
	{"GrowAwkPrintf", "awk 'BEGIN { x = sprintf(\"%999999999d\", 1) }'"},
	{"GrowAwkGsub", "awk 'BEGIN { x = \"xxxxxxxx\"; while (1) gsub(/x/, \"xxxxxxxx\", x) }'"},
	{"GrowAwkRecord", "tr '\\0' x < /dev/zero | awk '{ n++ }'"},
	{"GrowJqString", "jq -n '\"x\" * 1000000000 | length'"},
	{"GrowJqArray", "jq -n '[range(1000000000)] | length'"},
	{"GrowJqReduce", "jq -n 'reduce range(0; 1000000) as $i (\"x\"; . + .) | length'"},
	{"GrowJqRepeat", "jq -n '[limit(1000000000; repeat(1))] | length'"},
	{"GrowJqNest", "jq -n 'def f: [f]; f'"},
	{"GrowJqSlurp", "yes '[1,2,3]' | jq -s length"},
	{"GrowJqInput", "{ printf '\"'; tr '\\0' x < /dev/zero; } | jq length"},
	{"GrowJqCombinations", "jq -n '[range(1000) | [range(100)]] | combinations' > /dev/null"},
	{"GrowPaste", "paste -s /dev/zero > /dev/null"},
	{"GrowDiff", "diff <(seq 1 2 2000000) <(seq 2 2 2000000) > /dev/null"},
	{"GrowBcDigits", "echo 'scale = 100000000; 1/3' | bc"},
	{"GrowFiles", "for ((i=0;;i++)); do echo x > /tmp/f$i || break; done; while :; do :; done"},
	{"GrowFile", "yes > /tmp/big; dd if=/dev/zero of=/tmp/big2 bs=1M; truncate -s 1T /tmp/big3; while :; do :; done"},
	{"GrowDirectories", "cd /tmp; while mkdir d && cd d; do :; done; while :; do :; done"},
	{"GrowLinks", "echo > /tmp/l; for ((i=0;;i++)); do ln /tmp/l /tmp/l$i || break; done; while :; do :; done"},
	{"GrowGzip", "head -c 4000000 /dev/zero | gzip | gzip -d | gzip | gzip -dc > /tmp/z; while gzip -dc < /tmp/z; do :; done > /dev/null 2>&1; while :; do :; done"},
	{"GrowXxd", "xxd /dev/zero > /dev/null"},
	{"GrowBase64", "base64 /dev/zero > /dev/null"},
	{"GrowDescriptors", "for ((i=3;;i++)); do eval \"exec $i</dev/null\" || break; done 2> /dev/null; while :; do :; done"},
	{"GrowOutput", "yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
	{"GrowErrors", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >&2; done"},
	{"GrowGlob", "cd /tmp; touch {a..z}{a..z}; for ((;;)); do x+=$(echo *); done"},
	{"GrowHistory", "set -o history; while :; do history -s xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"},
	{"GrowTrap", "while :; do trap \"$(trap -p USR1)xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" USR1; done"},
	{"GrowInherited", "shopt -s expand_aliases; for ((i=0;i<4000;i++)); do alias a$i=1; declare v$i=1; done; while :; do sleep 1000 & alias b=$((i++)); done 2> /dev/null"},
	{"GrowExport", "while :; do export x$((i++))=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"},

	{"DeepFunction", "f() { f; }; f; while :; do :; done"},
	{"DeepFunctions", "f() { g; }; g() { f; }; f; while :; do :; done"},
	{"DeepSubstitution", "f() { x=$(f); }; f; while :; do :; done"},
	{"DeepSubshell", "f() { ( f ); }; f; while :; do :; done"},
	{"DeepShell", "export x='sh -c \"$x\"'; sh -c \"$x\"; while :; do :; done"},
	{"DeepArithmetic", "a=b; b=a; echo $((a)); while :; do :; done"},
	{"DeepNameref", "declare -n a=b b=a; echo $a; while :; do :; done"},
	{"DeepParens", nestText(100_000, "(", ":", ")")},
	{"DeepParensOpen", strings.Repeat("(", 900_000)},
	{"DeepBraces", nestText(50_000, "{ ", ":", "; }")},
	{"DeepSubstitutions", nestText(50_000, "$(", ":", ")")},
	{"DeepQuotes", nestText(50_000, `"$(`, ":", `)"`)},
	{"DeepArith", "echo $((" + nestText(200_000, "(", "1", ")") + "))"},
	{"DeepArithUnary", "echo $((" + strings.Repeat("- ", 200_000) + "1))"},
	{"DeepTernary", "echo $((" + strings.Repeat("1?1:", 100_000) + "1))"},
	{"DeepIf", nestText(20_000, "if :; then ", ":", "; fi")},
	{"DeepExtglob", "shopt -s extglob; [[ x == " + nestText(20_000, "@(", "x", ")") + " ]]"},
	{"DeepParam", nestText(50_000, "${x:-", "y", "}")},
	{"DeepBraceExpansion", "echo " + nestText(50_000, "{a,", "b", "}") + " > /dev/null"},
	{"DeepHereDocs", strings.Repeat("cat <<E <<E\nx\nE\nx\nE\n", 10_000)},
	{"DeepCase", nestText(20_000, "case x in x) ", ":", ";; esac")},
	{"DeepAwk", "awk 'BEGIN { print " + nestText(50_000, "(", "1", ")") + " }'"},
	{"DeepAwkRecursion", "awk 'function f(n) { return f(n + 1) } BEGIN { f(1) }'; while :; do :; done"},
	{"DeepJq", "jq -n '" + nestText(50_000, "[", "1", "]") + "'"},
	{"DeepJSON", "printf '%0100000d' 0 | tr 0 '[' | jq ."},
	{"DeepJqRecursion", "jq -n 'def f: 1 + f; f'; while :; do :; done"},
	{"DeepRegex", "echo x | grep -E '" + nestText(20_000, "(", "x", ")") + "'"},
	{"DeepRegexSed", "echo x | sed -E 's/" + nestText(20_000, "(", "x", ")") + "/y/'"},
	{"DeepBc", "echo '" + nestText(50_000, "(", "1", ")") + "' | bc"},
	{"DeepExpr", "expr " + nestText(5_000, "\\( ", "1", " \\)")},
	{"DeepFind", "find /tmp " + nestText(5_000, "\\( ", "-true", " \\)")},
	{"DeepTest", "test " + nestText(5_000, "\\( ", "x", " \\)")},
	{"DeepSource", "for i in {1..1500}; do echo \". /tmp/n$((i+1))\" > /tmp/n$i; done; . /tmp/n1; while :; do :; done"},

	{"RegexExponential", "printf '%0100d' 0 | grep -E '^(0|00|0+)*1$'"},
	{"RegexBackReference", "printf '%0200d' 0 | grep -E '^(0*)(0*)(0*)(0*)\\1\\2\\3\\4x$'"},
	{"RegexPerl", "printf '%0100d' 0 | grep -P '^(0+)+(?=1)$'"},
	{"RegexRepeat", "echo x | grep -E '((((x{1,100}){1,100}){1,100}){1,100}){1,100}'"},
	{"RegexBash", "x=$(printf '%010000d' 0); [[ $x =~ ^(0|00)*(0|000)*1$ ]]; while :; do :; done"},
	{"PatternStars", "x=$(printf '%05000d' 0); case $x in *0*0*0*0*0*0*0*0*0*0*0*0*0*0*0*1) ;; esac; while :; do :; done"},
	{"PatternExtglob", "shopt -s extglob; x=$(printf '%0300d' 0); [[ $x == +(+(+(0)))1 ]]; while :; do :; done"},
	{"PatternTrim", "x=$(printf '%0200000d' 0); y=${x##*(0)1}; y=${x%%+(0|00)1}; while :; do :; done"},
	{"RegexAwk", "awk 'BEGIN { x = sprintf(\"%05000d\", 0); while (1) x ~ /(0|00)*1$/ }'"},
	{"RegexSed", "printf '%0100000d\\n' 0 | sed -E 's/(0*)(0*)1/x/'; while :; do :; done"},
	{"RegexJq", "jq -n '\"0\" * 100 | test(\"^(0+)+1$\")'"},

	{"CrowdForkBomb", "f() { f | f & }; f; while :; do :; done"},
	{"CrowdBackground", "while :; do sleep 1000 & done"},
	{"CrowdPipes", "x='cat'; for i in {1..500}; do x+='|cat'; done; eval \"yes | $x > /dev/null\""},
	{"CrowdSubstitutions", "cat <(yes) <(yes) <(yes) <(yes) <(yes) <(yes) <(yes) > /dev/null"},
	{"CrowdCoproc", "while :; do coproc { cat; }; done 2> /dev/null"},
	{"CrowdXargs", "yes | xargs -P 1000 -n 1 sleep 1000"},
	{"CrowdSignals", "trap : USR1; while :; do kill -USR1 $$; done"},
	{"CrowdKillAll", "kill -9 -1; kill -9 0; kill -9 1; while :; do :; done"},
}

// watchHeap samples the size of the heap until stop is closed, and returns the largest.
func watchHeap(stop <-chan struct{}) <-chan uint64 {
	out := make(chan uint64, 1)
	go func() {
		most := uint64(0)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, heapSize())
			select {
			case <-stop:
				out <- max(most, heapSize())
				return
			case <-tick.C:
			}
		}
	}()
	return out
}

// countWorkAfter returns a function that returns the CPU time that this process has used since a
// deadline: 0 before it. Time that other processes of a busy host took does not count.
func countWorkAfter(deadline time.Duration) func() time.Duration {
	var atDeadline atomic.Int64
	timer := time.AfterFunc(deadline, func() { atDeadline.Store(int64(cpuTime())) })
	return func() time.Duration {
		timer.Stop()
		at := atDeadline.Load()
		if at == 0 {
			return 0
		}
		return cpuTime() - time.Duration(at)
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timeSort returns the CPU time of sorting a million numbers, which is about overtime on a machine with nothing else to
// do.
func timeSort() time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := make([]uint64, 1<<20)
	for i := range numbers {
		numbers[i] = r.Uint64()
	}
	from := cpuTime()
	slices.Sort(numbers)
	return cpuTime() - from
}

func heapSize() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// TestHostile runs every hostile command with limits and checks that none is exceeded, nothing is left, and the
// sandbox still works.
func TestHostile(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector multiplies memory and time, which this test measures; it runs without")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(30))
	for _, h := range testenv.Sample(t, hostile, testenv.Rounds(t, len(hostile), 40, ""), "ATOLL_BOMBS") { // the logic tier runs all
		t.Run(h.name, func(t *testing.T) {
			var problem string
			for range 10 { // the machine may be busy with something else for a while, not always
				if problem = runHostileScript(t, h.script); problem == "" {
					return
				}
			}
			t.Error(problem)
		})
	}
}

func runHostileScript(t *testing.T, script string) (problem string) {
	t.Helper()
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: hostileMemory, Disk: hostileDisk, PIDs: 128}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	goroutines, base := runtime.NumGoroutine(), heapSize()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(base) + hostileMemory + hostileDisk + overmemory*3/4))
	stop := make(chan struct{})
	most := watchHeap(stop)
	work := countWorkAfter(hostileDeadline)
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script, Timeout: hostileDeadline, MaxOutput: 64 << 10})
	worked := work()
	close(stop)
	used := <-most - base
	if err != nil && !errors.Is(err, atoll.ErrTimeout) {
		t.Fatalf("Exec: %v", err)
	}
	if worked > overtime {
		problem += fmt.Sprintf("it worked for %v after its deadline\n", worked)
	}
	if int64(used) > hostileMemory+hostileDisk+overmemory {
		problem += fmt.Sprintf("it used %d MiB, with limits of %d MiB for memory and %d MiB for files\n", used>>20, hostileMemory>>20, hostileDisk>>20)
	}
	if bytes.Contains(exit.Stderr, []byte("internal error")) || exit.Code == 134 {
		problem += fmt.Sprintf("a command crashed: %s\n", exit.Stderr)
	}
	again, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works", Timeout: 5 * time.Second})
	if err != nil || string(again.Stdout) != "works\n" {
		problem += fmt.Sprintf("afterwards: %q, %v\n", again.Stdout, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !testenv.Poll(ctx, func() bool { return runtime.NumGoroutine() <= goroutines }) {
		buf := make([]byte, 64<<10)
		return problem + "goroutines are left:\n" + string(buf[:runtime.Stack(buf, true)])
	}
	return problem
}

// TestHostileStdin feeds endless and random input to every front end.
func TestHostileStdin(t *testing.T) {
	testenv.Logic(t)
	for _, prog := range []string{"cat", "sh", "bash -s", "sort", "awk '{n++} END {print n}'", "jq .", "sed -n p", "tar -xf -", "unzip -", "gzip -d", "bc", "dc", "xargs echo", "patch", "wc", "base64 -d", "xxd -r"} {
		t.Run(prog, func(t *testing.T) {
			sb, err := virtual.New().Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: hostileMemory, Disk: hostileDisk}})
			if err != nil {
				t.Fatal(err)
			}
			defer sb.Destroy(context.Background())
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: prog + " > /dev/null", Stdin: &randomInput{rand.New(rand.NewPCG(1, 2))}, Timeout: hostileDeadline})
			if err != nil && !errors.Is(err, atoll.ErrTimeout) {
				t.Errorf("Exec: %v", err)
			}
			if exit.Code == 134 {
				t.Errorf("it crashed: %s", exit.Stderr)
			}
		})
	}
}

// randomInput is endless random input.
type randomInput struct{ r *rand.Rand }

func (n *randomInput) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(n.r.Uint32())
	}
	return len(b), nil
}

var _ io.Reader = (*randomInput)(nil)
