package hook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// quick are limits that tests reach soon.
var quick = hook.Limits{Memory: 32 << 20, Time: 300 * time.Millisecond, Total: 3 * time.Second}

// errEither is wanted where it depends on the machine which limit is met first.
var errEither = errors.New("a *Thrown or ErrTimeout")

// TestBombs: whatever a script does, the call ends soon, as an error of the
// script or of its time, and the next call is as good as the first.
func TestBombs(t *testing.T) {
	testenv.Logic(t)
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		law, code string
		want      error  // nil: a *Thrown
		text      string // part of what is said
	}{
		{"EndlessLoop", `for (;;);`, atoll.ErrTimeout, "300ms"},
		{"EndlessLoopThatCatches", `for (;;) { try { for (;;); } catch { } finally { continue } }`, atoll.ErrTimeout, ""},
		{"EndlessJobs", `const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})`, atoll.ErrTimeout, ""},
		{"EndlessAsync", `for (;;) await null`, atoll.ErrTimeout, ""},
		{"EndlessTimers", `const f = () => setTimeout(f, 0); f(); await new Promise(() => {})`, atoll.ErrTimeout, ""},
		{"EndlessSleep", `await new Promise((r) => setTimeout(r, 1e9))`, atoll.ErrTimeout, "3s"},
		{"NeverKept", `await new Promise(() => {})`, nil, "waits for a promise"},
		{"Regex", `/^(a+)+$/.test("a".repeat(40) + "b")`, atoll.ErrTimeout, ""},
		{"RegexBackReference", `/^(a*)*\1$/.test("a".repeat(5000) + "b")`, atoll.ErrTimeout, ""},
		{"Replace", `"x".repeat(1 << 20).replace(/x/g, "y".repeat(1000))`, errEither, ""},
		{"Memory", `const l = []; for (;;) l.push(new Array(1e5).fill(1.5))`, errEither, ""},
		{"MemoryThatCatches", `for (;;) { let l = []; try { for (;;) l.push("x".repeat(1e6) + l.length) } catch { l = null } }`, atoll.ErrTimeout, ""},
		{"MemoryOfStrings", `let s = "x"; for (;;) s += s`, errEither, ""},
		{"MemoryOfBuffers", `const l = []; for (;;) l.push(new Uint8Array(1 << 20))`, errEither, ""},
		{"SparseArray", `const a = []; a.length = 2 ** 32 - 1; a.indexOf(1)`, nil, "too long"},
		{"EndlessArrayLike", `Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, () => {})`, nil, "too long"},
		{"Uninterruptible", `let n = 0; Array.prototype.indexOf.call({ get length() { return n++ ? 3e7 : 0 } }, 1)
			for (;;);`, atoll.ErrTimeout, ""},
		{"Recursion", `const f = (n) => f(n + 1) + 1; f(0)`, nil, "stack"},
		{"RecursionOfGetters", `const o = { get x() { return this.x } }; o.x`, nil, "stack"},
		{"RecursionOfProxies", `let p = {}; for (let i = 0; i < 2e5; i++) p = new Proxy(p, {}); p.x`, errEither, ""},
		{"RecursionOfToString", `const a = []; a[0] = { toString() { return String(a[0]) } }; String(a[0])`, nil, "stack"},
		{"DeepJSON", `let o = []; for (let i = 0; i < 2e5; i++) o = [o]; return o`, errEither, ""},
		{"DeepJSONText", `JSON.parse("[".repeat(1e6) + "]".repeat(1e6))`, errEither, ""},
		{"DeepRegex", `new RegExp("(".repeat(1e6) + ")".repeat(1e6))`, errEither, ""},
		{"DeepEval", `eval("(".repeat(1e6) + "1" + ")".repeat(1e6))`, errEither, ""},
		{"DeepEvalUnary", `eval("!".repeat(1e6) + "1")`, errEither, ""},
		{"DeepEvalBlocks", `eval("{".repeat(1e6) + "}".repeat(1e6))`, errEither, ""},
		{"DeepEvalArrows", `eval("a=>".repeat(3e5) + "1")`, errEither, ""},
		{"DeepConcat", `let s = ""; const l = []; for (let i = 0; i < 2e5; i++) l.push(l); String(l)`, errEither, ""},
		{"DeepFlat", `let o = []; for (let i = 0; i < 2e5; i++) o = [o]; o.flat(Infinity)`, errEither, ""},
		{"DeepBound", `let f = () => 1; for (let i = 0; i < 2e5; i++) f = f.bind(null); f()`, nil, ""},
		{"DeepPrototypes", `let o = {}; for (let i = 0; i < 1e3; i++) o = Object.create(o); for (;;) o.x`, atoll.ErrTimeout, ""},
		{"DeepThen", `let p = Promise.resolve(); for (let i = 0; i < 3e5; i++) p = { then: ((q) => (f) => f(q))(p) }; await p`, errEither, ""},
		{"HugeResult", `return "x".repeat(17e6)`, errEither, ""},
		{"Circular", `const o = {}; o.o = o; return o`, nil, "circular"},
		{"BigInt", `return 1n`, nil, "BigInt"},
		{"ThrowingToJSON", `return { toJSON() { throw new Error("no") } }`, nil, "no"},
		{"ThrowsProxy", `throw new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })`, nil, "can't be shown"},
		{"ThrowsHostileError", `const e = new Error("x"); Object.defineProperty(e, "message", { get() { throw 1 } }); throw e`, nil, "can't be shown"},
		{"AtomicsWait", `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`, nil, "not defined"},
		{"DynamicImport", `await new Function("return import('std')")()`, nil, ""},
		{"Sort", `new Array(1e4).fill(0).map(Math.random).sort(() => { for (;;); })`, atoll.ErrTimeout, ""},
	} {
		t.Run(c.law, func(t *testing.T) {
			s := compileScript(t, "async function Create(ctx) {\n"+c.code+"\n}\nfunction Next() { return 1 }")
			limits, patient := quick, hook.Limits{Memory: quick.Memory, Time: 20 * time.Second, Total: 30 * time.Second}
			if c.want == nil {
				limits = patient // its end is another, however busy the machine is
			}
			got, err := s.Call(t.Context(), "Create", &hook.Scope{Limits: limits})
			var thrown *hook.ThrownError
			switch {
			case err == nil:
				t.Fatalf("returns %.100s", got)
			case errors.Is(c.want, errEither) && (errors.Is(err, atoll.ErrTimeout) || errors.As(err, &thrown)):
			case c.want != nil && !errors.Is(err, c.want), c.want == nil && !errors.As(err, &thrown):
				t.Fatalf("error is %T: %.300v", err, err)
			case !strings.Contains(err.Error(), c.text):
				t.Errorf("error is %.300v, want %q in it", err, c.text)
			}
			if got, err := s.Call(t.Context(), "Next", &hook.Scope{Limits: patient}); err != nil || string(got) != "1" {
				t.Errorf("the next call returns %s, %v", got, err)
			}
		})
	}
	waitForGoroutines(t, before)
}

// waitForGoroutines waits until no more goroutines run than before.
func waitForGoroutines(t *testing.T, before int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	if !testenv.Poll(ctx, func() bool { return runtime.NumGoroutine() <= before }) {
		b := make([]byte, 1<<16)
		t.Errorf("%d goroutines are left, there were %d:\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
	}
}

// TestLimits: the host functions have limits, too.
func TestLimits(t *testing.T) {
	testenv.Logic(t)
	ctx := t.Context()
	sb, err := (&virtual.Driver{}).Create(ctx, atoll.Spec{Dir: "/workspace", Limits: atoll.Resources{FileSize: 32 << 20, Disk: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(ctx) }()
	for name, size := range map[string]int{"big": 17 << 20, "small": 10} {
		if err := atoll.WriteFile(ctx, sb, "/workspace/"+name, bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out sent
	for _, c := range []struct{ law, code, want string }{
		{"BigFile", `ctx.sandbox.ReadFile("big")`, "at most 16777216 bytes"},
		{"BigBytes", `ctx.sandbox.ReadFileBytes("big")`, "at most 16777216 bytes"},
		{"BigOutput", `ctx.sandbox.Exec(["cat", "big"])`, "wrote more than 4194304 bytes"},
		{"BigMessage", `ctx.Send("x".repeat(2e6))`, "messages of 1048576 bytes"},
		{"ManyMessages", `for (;;) ctx.Send("x")`, "at most 10000 messages"},
		{"BigValue", `ctx.memory.chat.Set("k", "x".repeat(2e6))`, "at most 1048576"},
		{"BigKey", `ctx.memory.chat.Set("x".repeat(2000), 1)`, "a key has 1 to 1024 bytes"},
		{"ManyValues", `for (let i = 0; ; i++) ctx.memory.chat.Set("k" + i, i)`, "at most 10000 keys"},
		{"NoSuchSpace", `ctx.memory.chat.Set.call(null, "", 1)`, "a key has 1 to 1024 bytes"},
		{"ManyTimers", `for (;;) setTimeout(() => {}, 1000)`, "too many timers"},
		{"ManyStreams", `const f = () => ctx.computer.Stream(["sh", "-c", "echo; sleep 1000"], {}, f); f()`, "at most 16 streams"},
		{"EndlessStream", `ctx.computer.Stream(["sleep", "1000"], {}, () => {})`, ""},
		{"NULInPath", `ctx.sandbox.ReadFile("a\0b")`, "NUL"},
		{"EmptyPath", `ctx.sandbox.ReadFile("")`, "an empty path"},
		{"PathIsNoText", `ctx.sandbox.ReadFile({ toString() { return "small" } })`, "must be a string, not object"},
		{"CommandIsNoList", `ctx.sandbox.Exec("ls")`, "must be a list of strings"},
		{"ArgumentIsNoText", `ctx.sandbox.Exec(["ls", {}])`, "an argument must be a string, not object"},
		{"NULInCommand", `ctx.sandbox.Exec(["ls", "a\0"])`, "NUL"},
		{"RemoveAllOfAll", `ctx.workspace.RemoveAll("..")`, "denied"},
		{"RemoveAllOfWorkspace", `ctx.workspace.RemoveAll(".")`, "denied"},
		{"NoSuchProcess", `Process("models.user.find", 1)`, "no processes are available"},
	} {
		t.Run(c.law, func(t *testing.T) {
			s := compileScript(t, "function Create(ctx) {\n"+c.code+"\n}")
			limits := hook.Limits{Time: 30 * time.Second, Total: time.Minute}
			if c.want == "" {
				limits = quick // it never ends by itself
			}
			_, err := s.Call(ctx, "Create", &hook.Scope{Sandbox: sb, Output: &out, Limits: limits})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestLogIsBounded(t *testing.T) {
	testenv.Logic(t)
	var logs bytes.Buffer
	s := compileScript(t, `function Create() { for (let i = 0; i < 1e6; i++) log.Info("line " + i); log.Error("x".repeat(1e6)) }`)
	if _, err := s.Call(t.Context(), "Create", &hook.Scope{Log: newLogger(&logs), Limits: hook.Limits{Time: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logs.String(), "\n"); n != 1001 || !strings.Contains(logs.String(), "hook logs too much") || !strings.Contains(logs.String(), "dropped=999001") {
		t.Errorf("%d lines, the last of which is %s", n, logs.String()[max(0, logs.Len()-200):])
	}
}

// TestCancel: a call ends with its context, whatever it does.
func TestCancel(t *testing.T) {
	before := runtime.NumGoroutine()
	errMine := errors.New("mine")
	for _, code := range []string{
		`for (;;);`, `await new Promise((r) => setTimeout(r, 1e6))`, `ctx.sandbox.Exec(["sleep", "1000"])`,
		`try { ctx.sandbox.Exec(["sleep", "1000"]) } catch { for (;;); }`,
		`ctx.computer.Stream(["sh", "-c", "while :; do echo x; done"], {}, () => {})`,
		`Process("wait")`,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		started := make(chan struct{})
		sc := &hook.Scope{Sandbox: newSandbox(t), Process: func(ctx context.Context, name string, _ []any) (any, error) {
			if name == "started" {
				close(started)
				return nil, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		s := compileScript(t, "async function Create(ctx) {\nProcess('started');\n"+code+"\n}")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Call(ctx, "Create", sc); !errors.Is(err, errMine) {
				t.Errorf("%s: error is %v", code, err)
			}
		})
		<-started
		cancel(errMine)
		wg.Wait()
	}
	waitForGoroutines(t, before)
}

// TestAtOnce: concurrent calls of one script do not see each other's state.
func TestAtOnce(t *testing.T) {
	s := compileScript(t, `let n = 0
		Object.prototype.polluted = "yes"
		async function Create(ctx, i) { n++; await null; ctx.memory.context.Set("i", i); return { n, i, got: ctx.memory.context.Get("i") } }`)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			got, err := s.Call(t.Context(), "Create", &hook.Scope{Limits: hook.Limits{Time: time.Minute}}, i)
			if want := fmt.Sprintf(`{"n":1,"i":%d,"got":%d}`, i, i); err != nil || string(got) != want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// TestPollution: changes of a script's built-ins stay in the script, and reach the host
// only as data.
func TestPollution(t *testing.T) {
	var out sent
	s := compileScript(t, `
		JSON.stringify = () => "not JSON"; JSON.parse = () => ({ values: {} });
		Array.isArray = () => false; Object.assign = () => { throw 1 };
		Array.prototype.map = () => ["rm", "-rf", "/"]; Promise.prototype.then = () => {};
		function Create(ctx) { ctx.Send({ type: "text" }); return ctx.sandbox.Exec(["echo", "hi"]) }`)
	got, err := s.Call(t.Context(), "Create", &hook.Scope{Sandbox: newSandbox(t), Output: &out})
	var thrown *hook.ThrownError
	if err == nil && !bytes.HasPrefix(got, []byte(`"`)) || err != nil && !errors.As(err, &thrown) && !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("%s, %v", got, err)
	}
}

// TestDeepSources: no file of hooks can overrun the compiler's stack.
func TestDeepSources(t *testing.T) {
	testenv.Logic(t)
	const n = 50_000 // tokens
	for law, code := range map[string]string{
		"Brackets": strings.Repeat("(", n), "Lists": strings.Repeat("[", n), "Blocks": strings.Repeat("{", n),
		"Nots": strings.Repeat("!", n-50) + "1", "Minus": strings.Repeat("- ", n-50) + "1", "Arrows": strings.Repeat("a=>", n/3-9) + "1",
		"Ternaries": strings.Repeat("a?b:", n/4-9) + "c", "Powers": strings.Repeat("a**", n/3-9) + "1", "Ifs": strings.Repeat("if(1)", n/4-9) + ";",
		"Elses": strings.Repeat("if(1);else ", n/6-9) + ";", "News": strings.Repeat("new ", n-50) + "a", "Assigns": strings.Repeat("a=", n/2-9) + "1",
		"Types": "let a: " + strings.Repeat("A<", n/2-9), "Templates": strings.Repeat("${`", 100) + strings.Repeat("`${", n/3-200), "Awaits": strings.Repeat("typeof ", n-50) + "a",
		"Sums": strings.Repeat("a+", n/2-9) + "1", "Commas": strings.Repeat("a,", n/10) + "1", "Dots": "a" + strings.Repeat(".a", n/2-19), "Calls": "a" + strings.Repeat("()", n/2-19),
		"Labels": strings.Repeat("a:", n/2-19) + ";", "Unions": "type A = " + strings.Repeat("A|", n/2-19) + "B", "Keys": "type A = " + strings.Repeat("keyof ", n-50) + "B",
		"Conditional": "type A = " + strings.Repeat("A extends B ? ", n/4-9), "Functions": "type A = " + strings.Repeat("()=>", n/4-9) + "B", "JSX": strings.Repeat("<a>", n/3-19),
	} {
		t.Run(law, func(t *testing.T) {
			_, err := hook.Compile(fstest.MapFS{"a.ts": {Data: []byte(code + "\nfunction Create() {}")}}, "a.ts")
			if err != nil && !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("error is %.200v", err)
			}
		})
	}
}
