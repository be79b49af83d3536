//go:build unix

package jq

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limits is a budget that ends a run as the kernel does, by a panic.
type limits struct {
	memory   int64
	deadline time.Time
	live     int64
	peak     int64
}

type (
	overMemory struct{}
	overTime   struct{}
)

func (l *limits) Tick(int) {
	if time.Now().After(l.deadline) {
		panic(overTime{})
	}
}

func (l *limits) Alloc(n int64) {
	l.live += n
	if l.live > l.memory {
		panic(overMemory{})
	}
	l.peak = max(l.peak, l.live)
}

func (l *limits) Free(n int64) { l.live -= n }

// runToEnd runs a program to its end and returns the reason why it ended, or nil.
func runToEnd(program, input string, l *limits) (why any) {
	defer func() { why = recover() }()
	code, err := Compile(program, &Config{Budget: l})
	if err != nil {
		return err
	}
	v, err := DecodeText(input, nil)
	if err != nil {
		return err
	}
	run := code.Run(v)
	for {
		if _, ok, err := run.Next(); !ok {
			if err != nil {
				panic(err)
			}
			return nil
		}
	}
}

// hostile are programs that never end by themselves or need more memory than allowed.
var hostile = []struct{ name, program string }{
	{"LongString", `"x" * 1e9`},
	{"LongArray", `[range(1e9)]`},
	{"DoublingString", `reduce range(1e6) as $i ("x"; . + .)`},
	{"DoublingArray", `reduce range(1e6) as $i ([1]; . + .)`},
	{"EndlessArray", `[limit(1e9; repeat(1))]`},
	{"EndlessCalls", `def f: [f]; f`},
	{"EndlessRecursion", `def f: 1 + f; f`},
	{"EndlessTailCalls", `def f: f; f`},
	{"EndlessClosures", `def f(g): f(g | . + 1); f(.)`},
	{"EndlessUntil", `until(false; .)`},
	{"EndlessRepeat", `repeat(1)`},
	{"EndlessRecurse", `recurse(.)`},
	{"EndlessChoices", `def f: (., 1) | f; f`},
	{"EndlessLabels", `def f: label $x | f; f`},
	{"EndlessTries", `def f: try f catch f; f`},
	{"Combinations", `[range(1e6)] | [., ., ., .] | combinations | empty`},
	{"CombinationsHeld", `[[range(100)] | combinations(10)]`},
	{"DeepValue", `reduce range(1e7) as $i (0; [.])`},
	{"DeepObject", `reduce range(1e7) as $i (0; {a: .})`},
	{"DeepPath", `[limit(1e7; repeat("a"))] as $p | setpath($p; 1)`},
	{"LongPath", `path(def f: .a | f; f)`},
	{"ManyPaths", `[range(1e5)] | [paths, paths, paths] | map(tojson) | [., ., .] | tojson | [limit(1e9; repeat(. + "x"))]`},
	{"WideObject", `reduce range(1e9) as $i ({}; .["k\($i)"] = $i)`},
	{"RegexBombs", `repeat(("a" * 40) | test("(a|aa|a?)*\\1*b"), (("a" * 5000) | [match("(a*)*(a*)*b"; "g")])) | empty`},
	{"MatchesEverywhere", `("a" * 1000000) | [match(""; "g")]`},
	{"GsubGrows", `[limit(1e9; "a" | repeat(.))] | length`},
	{"GsubDoubles", `def f: gsub("a"; "aa") | f; "a" | f`},
	{"SplitEach", `("a," * 30000000) | split(",")`},
	{"ExplodeAll", `("a" * 100000000) | explode`},
	{"ImplodeAll", `[limit(1e9; repeat(65))] | implode`},
	{"Flatten", `reduce range(1e7) as $i ([]; [., 1]) | flatten`},
	{"HugeIndex", `.[500000000] = 1`},
	{"HugeIndices", `[range(1000)] | map(.[100000000] = 1)`},
	{"SortAll", `[range(1e7)] | sort_by(-.)`},
	{"JoinAll", `[range(1e6) | tostring * 100] | join(",")`},
	{"TostringGrows", `def f: [., .] | tostring | f; "\"" | f`},
	{"JSONGrows", `def f: tojson | f; "\"\"\"\"" | f`},
	{"FormatGrows", `def f: @base64 | f; "aaaaaaaaaaaaaaaa" | f`},
	{"UriGrows", `def f: @uri | f; "éééééééééééééééé" | f`},
	{"LtrimLoop", `def f: ltrimstr("x") | f; "a" | f`},
	{"TransposeWide", `[[range(1e6)], [range(1e6)]] | [limit(1e6; repeat(transpose))]`},
	{"Range", `range(1e18) | empty`},
	{"RangeBy", `range(0; 1e18; 1) | empty`},
	{"Foreach", `foreach range(1e18) as $i (0; . + $i; empty)`},
	{"UpdateAll", `[range(1e6)] | last(repeat(.[] |= . + 1))`},
	{"Walk", `def f: walk([., .]) | f; [1] | f`},
	{"Inputs", `[limit(1e9; repeat("x" * 1000))]`},
	{"StringBuild", `reduce range(1e9) as $i (""; . + "xxxxxxxxxxxxxxxx")`},
	{"ManyKeys", `[range(1e6) | {key: "k\(.)", value: .}] | [limit(1e6; repeat(from_entries))]`},
	{"BigLiteral", `[limit(1e9; repeat("12345678901234567890.5" | tonumber))]`},
}

// slack is the user CPU time, of all threads together, that a run may use after its deadline.
const slack = 100 * time.Millisecond

// TestHostileProgramsMeetLimits runs each program with 64 MB and 200 ms.
func TestHostileProgramsMeetLimits(t *testing.T) {
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			var problem string
			for range 10 { // the machine may be busy with something else for a while, not always
				if problem = runHostileProgram(t, test.program); problem == "" {
					return
				}
			}
			t.Error(problem)
		})
	}
}

// runHostileProgram runs a program and returns which limit it did not meet, or "".
func runHostileProgram(t *testing.T, program string) (problem string) {
	t.Helper()
	const deadline = 200 * time.Millisecond
	runtime.GC()
	l := &limits{memory: 64 << 20, deadline: time.Now().Add(deadline)}
	stop, seen := watchUsage(deadline)
	begin := time.Now()
	why := runToEnd(program, "null", l)
	took := time.Since(begin)
	close(stop)
	saw := <-seen
	t.Logf("%T after %v, heap %d MB", why, took, saw.heapGrowth>>20)
	switch why.(type) {
	case overMemory, overTime, *Error:
	default:
		return fmt.Sprintf("ended by %v, want a limit", why)
	}
	if saw.cpuAfterDeadline > slack {
		return fmt.Sprintf("worked for %v after the deadline of %v", saw.cpuAfterDeadline, deadline)
	}
	if saw.heapGrowth > (64+32)<<20 {
		return fmt.Sprintf("heap grew by %d MB, limit 64 MB", saw.heapGrowth>>20)
	}
	return ""
}

// usage is what a watched run used.
type usage struct {
	heapGrowth       uint64        // growth of the heap in bytes
	cpuAfterDeadline time.Duration // user CPU time used after the deadline
}

// cpuTime returns the user CPU time of the test process. Other load on the host doesn't count, nor does the kernel: getting
// new pages takes ten times as long on a virtual machine that has just started.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano())
}

// watchUsage measures the use of memory and CPU time until stop is closed.
func watchUsage(deadline time.Duration) (stop chan struct{}, seen chan usage) {
	stop, seen = make(chan struct{}), make(chan usage, 1)
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		var w usage
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		late := time.After(deadline)
		atDeadline := time.Duration(-1)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				w.heapGrowth = max(w.heapGrowth, now.HeapAlloc-before.HeapAlloc)
			}
			select {
			case <-stop:
				if atDeadline >= 0 {
					w.cpuAfterDeadline = cpuTime() - atDeadline
				}
				seen <- w
				return
			case <-late:
				atDeadline = cpuTime()
			case <-ticker.C:
			}
		}
	}()
	return stop, seen
}

// TestHostileTextIsRefused checks that deeply nested text is an error, not a stack overflow.
func TestHostileTextIsRefused(t *testing.T) {
	for _, open := range []string{"(", "[", "{a:", "-", "if ", "try ", "reduce ", `"\(`, "def f: ", ".a as [", "[.[", "label $x|", "1 as $x|", "1//", "1="} {
		if _, err := Compile(strings.Repeat(open, 200000), &Config{}); err == nil {
			t.Errorf("%s: no error", open)
		}
	}
	for _, chain := range []string{"|.", ",.", "+1", ".a", "[0]", "?", " and 1", "//1", "|.a=1"} {
		l := &limits{memory: 256 << 20, deadline: time.Now().Add(5 * time.Second)}
		if _, ok := runToEnd("."+strings.Repeat(chain, 100000), "null", l).(runtime.Error); ok {
			t.Errorf("%s: crashed", chain)
		}
	}
	if _, err := DecodeText(strings.Repeat("[", 1<<20), nil); err == nil {
		t.Error("endless nesting is no error")
	}
	if _, err := DecodeText(strings.Repeat("[", 10000)+strings.Repeat("]", 10000), nil); err != nil {
		t.Errorf("10000 levels: %v", err)
	}
}

// TestTailCallsNeedNoMemory runs loops written as recursion with a few MB.
func TestTailCallsNeedNoMemory(t *testing.T) {
	for _, program := range []string{
		`def f: if . > 1000000 then . else . + 1 | f end; 0 | f`,
		`def f($n): if $n > 100000 then $n else f($n + 1) end; f(0)`,
		`last(limit(300000; repeat(1)))`,
		`0 | until(. > 300000; . + 1)`,
		`last(range(1000000))`,
		`reduce range(300000) as $i ([]; .[$i % 10] += 1)`,
		`reduce range(300000) as $i ({}; .[$i % 10 | tostring] += 1) | length`,
		`def f: if . > 100000 then . else (try (. + 1) catch .) | f end; 0 | f`,
		`def f: if .[0] > 50000 then . else (try [.[0] + 1, "some text to keep \(.[0])"] catch .) | f end; [0] | f`,
		`def f: if . > 100000 then . else first(. + 1, 2) | f end; 0 | f`,
	} {
		l := &limits{memory: 24 << 20, deadline: time.Now().Add(20 * time.Second)}
		if why := runToEnd(program, "null", l); why != nil {
			t.Errorf("%s: %T %v", program, why, why)
		}
	}
}
