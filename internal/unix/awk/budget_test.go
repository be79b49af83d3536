package awk

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// limitedBudget is a budget with a memory limit and a deadline.
type limitedBudget struct {
	live, peak, limit int64
	deadline          time.Time
	ticks, lastCheck  int
}

// budgetSpent is the panic value that ends a program.
type budgetSpent struct{ why string }

func (b *limitedBudget) Tick(n int) {
	b.ticks += n
	if b.ticks < b.lastCheck+64 {
		return
	}
	b.lastCheck = b.ticks
	if time.Now().After(b.deadline) {
		panic(budgetSpent{"time"})
	}
}

func (b *limitedBudget) Alloc(n int64) {
	b.live += n
	b.peak = max(b.peak, b.live)
	if b.live > b.limit {
		panic(budgetSpent{"memory"})
	}
}

func (b *limitedBudget) Free(n int64) { b.live -= n }

// runWith runs a program to its end or until its budget ends it; why is the exhausted limit,
// "syntax", or empty.
func runWith(src, input string, b *limitedBudget) (why string, status int, out string) {
	var buf bytes.Buffer
	defer func() {
		switch v := recover().(type) {
		case nil:
		case budgetSpent:
			why = v.why
		default:
			panic(v)
		}
	}()
	prog, err := Parse([]Source{{Text: src}}, b, nil)
	if err != nil {
		return "syntax", 1, err.Error()
	}
	status = prog.Run(&Config{Name: "awk", Stdin: strings.NewReader(input), Stdout: io.Discard, Stderr: &buf, Budget: b})
	return "", status, buf.String()
}

// runInTime runs a program like runWith. It fails the test if the program doesn't end soon after its
// budget's deadline.
func runInTime(t *testing.T, src, input string, b *limitedBudget) (why string) {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		why, _, _ := runWith(src, input, b)
		ended <- why
	}()
	select {
	case why = <-ended:
	case <-time.After(2 * time.Minute): // a busy host may be slow
		t.Fatal("the program didn't end after the deadline of its budget")
	}
	return why
}

// TestHostileProgramsEndInBudget runs programs that need too much with 64 MiB and 150 ms.
func TestHostileProgramsEndInBudget(t *testing.T) {
	grow := strings.Repeat
	for _, c := range []struct{ name, src, why string }{
		{"Forever", `BEGIN { while (1); }`, "time"},
		{"ForeverFor", `BEGIN { for (;;) x++ }`, "time"},
		{"ForeverRecursion", `function f(n) { return f(n + 1) + 1 } BEGIN { f(0) }`, "memory"},
		{"Doubling", `BEGIN { x = "x"; while (1) x = x x }`, "memory"},
		{"DoublingTwoNames", `BEGIN { x = "x"; while (1) { y = x x; x = y y } }`, "memory"},
		{"Append", `BEGIN { while (1) x = x "0123456789012345678901234567890123456789" }`, "memory"},
		{"Elements", `BEGIN { while (1) a[i++] = i }`, "memory"},
		{"LongKeys", `BEGIN { k = sprintf("%10000d", 1); while (1) a[k i++] }`, "memory"},
		{"SubArrays", `BEGIN { while (1) a[i++][1] = 1 }`, "memory"},
		{"WideFormat", `BEGIN { printf "%1000000000d", 1 }`, "memory"},
		{"StarFormat", `BEGIN { x = sprintf("%*d", 2000000000, 1) }`, "memory"},
		{"PreciseFormat", `BEGIN { x = sprintf("%.1000000000f", 1) }`, "memory"},
		{"GsubGrowth", `BEGIN { x = "aaaaaaaa"; while (1) gsub(/a/, "aa", x) }`, "memory"},
		{"GsubLongReplacement", `BEGIN { r = sprintf("%100000d", 1); x = sprintf("%100000d", 1); gsub(/./, r, x) }`, "memory"},
		{"Gensub", `BEGIN { x = "a"; while (1) x = gensub(/(.*)/, "\\1\\1", 1, x) }`, "memory"},
		{"SplitEach", `BEGIN { x = sprintf("%10000000d", 1); split(x, a, "") }`, "memory"},
		{"ManyFields", `BEGIN { $9000000 = "x"; print }`, "memory"},
		{"ConcatInCall", `function f(a, b, c, d) { return 1 } BEGIN { x = sprintf("%12000000d", 1); f(x x, x x, x x, x x) }`, "memory"},
		{"ConcatInPrint", `BEGIN { x = sprintf("%12000000d", 1); print x x, x x, x x, x x }`, "memory"},
		{"ToupperInPrint", `BEGIN { x = sprintf("%12000000d", 1); print toupper(x), tolower(x), toupper(x), tolower(x), toupper(x) }`, "memory"},
		{"CaseAndSubstrTime", `BEGIN { x = sprintf("%1000000d", 1); while (1) y = toupper(x) }`, "time"},
		{"LengthTime", `BEGIN { x = sprintf("%1000000d", 1); while (1) y = length(x) }`, "time"},
		{"IndexTime", `BEGIN { x = sprintf("%1000000d", 1); while (1) y = index(x, "z") }`, "time"},
		{"CompareTime", `BEGIN { x = sprintf("%1000000d", 1); y = x ""; while (1) z = x < y }`, "time"},
		{"RegexTime", `BEGIN { x = sprintf("%1000000d", 1); while (1) z = x ~ /(a|b|c)*d/ }`, "time"},
		{"SortTime", `BEGIN { for (i = 0; i < 100000; i++) a[i] = 100000 - i; while (1) asort(a, b) }`, ""},
		{"DeleteTime", `BEGIN { while (1) { for (i = 0; i < 1000; i++) a[i]; delete a } }`, "time"},
		{"NumberTime", `BEGIN { x = sprintf("%01000000d", 1); while (1) z = x + 0 }`, "time"},
		{"Fields", `BEGIN { x = sprintf("%1000000d", 1); gsub(/ /, "a ", x); while (1) { $0 = x; n = NF } }`, "time"},
		{"Nested", `BEGIN { x = ` + grow("(", 100000) + "1" + grow(")", 100000) + `}`, "syntax"},
		{"NestedMinus", `BEGIN { x = ` + grow("-", 100000) + `1 }`, "syntax"},
		{"NestedNot", `BEGIN { x = ` + grow("!", 100000) + `1 }`, "syntax"},
		{"NestedDollar", `{ x = ` + grow("$", 100000) + `1 }`, "syntax"},
		{"NestedIf", `BEGIN { ` + grow("if (1) ", 100000) + `x }`, "syntax"},
		{"NestedBlock", `BEGIN ` + grow("{", 100000) + grow("}", 100000), "syntax"},
		{"NestedAssign", `BEGIN { ` + grow("x = ", 100000) + `1 }`, "syntax"},
		{"NestedTernary", `BEGIN { x = ` + grow("1 ? ", 50000) + "1" + grow(" : 1", 50000) + ` }`, "syntax"},
		{"NestedPower", `BEGIN { x = ` + grow("2 ^ ", 100000) + `2 }`, "syntax"},
		{"NestedIndex", `BEGIN { ` + grow("a[", 100000) + grow("]", 100000) + ` }`, "syntax"},
		{"LongSum", `BEGIN { x = ` + grow("1 + ", 100000) + `1 }`, ""},
		{"LongAnd", `BEGIN { x = ` + grow("1 && ", 100000) + `1 }`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b := &limitedBudget{limit: 64 << 20, deadline: time.Now().Add(150 * time.Millisecond)}
			why := runInTime(t, c.src, "", b)
			runtime.ReadMemStats(&after)
			if why != c.why && !(c.why == "" && why != "memory") && !(c.why != "" && why == "time") {
				t.Errorf("ended by %q, want %q", why, c.why)
			}
			if over := int64(after.Sys) - int64(before.Sys); over > 400<<20 {
				t.Errorf("the process grew by %d MB", over>>20)
			}
		})
	}
}

// TestProgramIsCharged parses a program that is large in memory.
func TestProgramIsCharged(t *testing.T) {
	b := &limitedBudget{limit: 64 << 20, deadline: time.Now().Add(time.Minute)}
	if why, _, _ := runWith("BEGIN { x = "+strings.Repeat("1 ", 1<<19)+"}", "", b); why != "memory" {
		t.Errorf("ended by %q after a charge of %d bytes, want memory", why, b.peak)
	}
}

// TestBudgetIsReturned checks that a program frees everything that it charged.
func TestBudgetIsReturned(t *testing.T) {
	for _, src := range []string{
		`{ a[NR] = $0; b[$1, $2] = $3; $2 = "x"; print } END { delete a[1]; for (k in b) s = s k }`,
		`function f(x, l) { l["a"] = x x; return l["a"] } { y = f($0); z = y z; sub(/a/, "bbb", z) } END { exit 3 }`,
		`BEGIN { x = sprintf("%100000d", 1); x = x x; n = split(x, p, ""); NF = 100; NF = 3; exit }`,
		`function f() { g["x"] = 1; exit 1 } { y = y $0 f() }`,
		`function f(l) { l[1][1] = 2; l[2]["x"] = $0 } { a[NR][$1] = $2; f(); delete a[NR - 1]; $9 = "z"; print > "/dev/null" }`,
	} {
		b := &limitedBudget{limit: 64 << 20, deadline: time.Now().Add(5 * time.Second)}
		if why, _, _ := runWith(src, strings.Repeat("one two three four\n", 100), b); why != "" {
			t.Errorf("%s: ended by %s", src, why)
		}
		if b.live != 0 {
			t.Errorf("%s: %d bytes are still charged", src, b.live)
		}
	}
}

// FuzzRun runs any program on any input. The interpreter must not crash or exceed its budget.
func FuzzRun(f *testing.F) {
	for _, p := range readPrograms(f) {
		f.Add(p.src, p.input)
	}
	f.Fuzz(func(t *testing.T, src, input string) {
		b := &limitedBudget{limit: 32 << 20, deadline: time.Now().Add(200 * time.Millisecond)}
		runInTime(t, src, input, b)
	})
}
