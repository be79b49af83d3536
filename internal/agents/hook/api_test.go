package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestForms: a hook may be written in every way that people write functions.
func TestForms(t *testing.T) {
	other := "export const twice = (n: number): number => n * 2;\nexport default class Greeter { constructor(readonly name: string) {} hi() { return `hi ${this.name}` } }\n"
	for law, code := range map[string]string{
		"Plain":         `function Create(ctx, n) { return n * 2 }`,
		"Strict":        `"use strict"; function Create(ctx, n) { return n * 2 }`,
		"Exported":      `export function Create(ctx, n) { return n * 2 }`,
		"Async":         `export async function Create(ctx, n) { await null; return n * 2 }`,
		"Const":         `export const Create = async (ctx, n) => n * 2`,
		"PlainConst":    `const Create = (ctx, n) => n * 2`,
		"Renamed":       `function double(ctx, n) { return n * 2 }; export { double as Create }`,
		"Default":       `export default { Create(ctx, n) { return n * 2 } }`,
		"CommonJS":      `exports.Create = (ctx, n) => n * 2`,
		"ModuleExports": `module.exports = { Create: (ctx, n) => n * 2 }`,
		"TypeScript": `import type { Context } from "@yao/runtime"
			interface Ctx { chat_id: string }
			enum Factor { Two = 2 }
			export function Create<T extends number>(ctx: Ctx & Context, n: T): number { return (n as number)! * Factor.Two satisfies number }`,
		"Import":       `import { twice } from "./lib/other"; export function Create(ctx, n) { return twice(n) }`,
		"ImportEnding": `import { twice } from "./lib/other.ts"; function Create(ctx, n) { return twice(n) }`,
		"ImportAsJS":   `import { twice } from "./lib/other.js"; function Create(ctx, n) { return twice(n) }`,
		"ImportClass":  `import G, * as all from "../src/lib/other"; function Create(ctx, n) { return new G("x").hi() === "hi x" ? all.twice(n) : 0 }`,
		"ImportJSON":   `import data from "./data.json"; function Create(ctx, n) { return data.two * n }`,
		"ImportText":   `import text from "./note.txt"; function Create(ctx, n) { return text.trim().length * n }`,
		"ImportDir":    `import { two } from "./dir"; function Create(ctx, n) { return n * two }`,
		"Require":      `const { twice } = require("./lib/other"); function Create(ctx, n) { return twice(n) }`,
		"LastComment":  "function Create(ctx, n) { return n * 2 } // the end",
		"NewSyntax":    `class A { #x = 2; static { this.y = 1 } get x() { return this.#x } } function Create(ctx, n) { let r = null; r ??= n; return Object.groupBy([1], () => "a").a.at(-1) * r * new A().x }`,
		"Thenable":     `function Create(ctx, n) { return { then(f) { f(n * 2) } } }`,
		"Timeout":      `async function Create(ctx, n) { const a = await new Promise((r) => setTimeout(r, 10, n)); return a * 2 }`,
	} {
		t.Run(law, func(t *testing.T) {
			s, err := hook.Compile(fstest.MapFS{
				"src/index.ts": {Data: []byte(code)}, "src/lib/other.ts": {Data: []byte(other)}, "src/data.json": {Data: []byte(`{"two": 2}`)},
				"src/note.txt": {Data: []byte("ab\n")}, "src/dir/index.ts": {Data: []byte("export const two = 2")},
			}, "src/index.ts")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"Create"}, s.Functions()); diff != "" {
				t.Error(diff)
			}
			got, err := s.Call(t.Context(), "Create", nil, 21)
			if err != nil || string(got) != "42" {
				t.Errorf("returns %s, %v", got, err)
			}
		})
	}
}

// TestMistakes: errors of compilation have their position.
func TestMistakes(t *testing.T) {
	testenv.Logic(t)
	for _, c := range []struct{ law, code, want string }{
		{"Syntax", "function Create() {\n  return 1 +\n}", "src/index.ts:3:1: Unexpected"},
		{"NoHook", "function create() {}", "src/index.ts: it has neither a function Create nor Next"},
		{"Empty", "", "src/index.ts: it has neither a function Create nor Next"},
		{"NodeModule", "import fs from \"node:fs\"\nfunction Create() { fs }", "src/index.ts:1:16: import of \"node:fs\": hooks import files beside them"},
		{"Absolute", "import x from '/etc/passwd'\nfunction Create() { x }", "src/index.ts:1:15: import of \"/etc/passwd\""},
		{"Outside", "import x from '../../x'\nfunction Create() { x }", "leads out of the assistant's directory"},
		{"Missing", "import { x } from './x'\nfunction Create() { x }", "src/index.ts:1:19: import of \"./x\": there is no such file"},
		{"InImport", "import { x } from './broken'\nfunction Create() { x }", "src/broken.ts:2:5: "},
		{"NoSuchExport", "import { y } from './fine'\nfunction Create() { y() }", "src/index.ts:1:10: No matching export"},
		{"TopLevelThrow", "const o = null\nconst x = o.x\nfunction Create() {}", "src/index.ts:2:"},
		{"TopLevelAwait", "await 1\nfunction Create() {}", "src/index.ts:1:1: Top-level await"},
		{"TopLevelLoop", "for (;;);\nfunction Create() {}", "ran for more than"},
		{"Binary", "import x from './x.png'\nfunction Create() { x }", "must be .ts, .js, .json, .txt or .md"},
		{"TooLarge", "/*" + strings.Repeat("x", 600<<10) + "*/function Create() {}", "more than 512 KiB"},
	} {
		t.Run(c.law, func(t *testing.T) {
			_, err := hook.Compile(fstest.MapFS{
				"src/index.ts": {Data: []byte(c.code)}, "src/broken.ts": {Data: []byte("export const x =\n  1 2")}, "src/fine.ts": {Data: []byte("export const x = 1")},
				"src/x.png": {Data: []byte{1}}, "x.ts": {Data: []byte("export default 1")},
			}, "src/index.ts")
			if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := hook.Compile(os.DirFS(t.TempDir()), "src/index.ts"); err == nil {
		t.Error("a file that is not there is compiled")
	}
}

// TestThrown: an exception has its message and its position in the source files.
func TestThrown(t *testing.T) {
	s, err := hook.Compile(fstest.MapFS{
		"src/index.ts": {Data: []byte("import { check } from './check'\n\ninterface A {\n  b: string\n}\nexport async function Create(ctx, what: string) {\n  await null\n  check(what)\n}\n")},
		"src/check.ts": {Data: []byte("// checks\nexport function check(what: string) {\n  if (what === 'error') throw new TypeError('not so')\n  if (what === 'text') throw 'only text'\n  if (what === 'none') throw undefined\n  throw { code: 7 }\n}\n")},
	}, "src/index.ts")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]hook.ThrownError{
		"error":  {Message: "not so", Stack: "    at check (src/check.ts:3:35)\n    at Create (src/index.ts:8:3)\n"},
		"text":   {Message: "only text", Value: json.RawMessage(`"only text"`)},
		"object": {Message: `thrown: {"code":7}`, Value: json.RawMessage(`{"code":7}`)},
		"none":   {Message: "thrown: undefined", Value: json.RawMessage("null")},
	} {
		_, err := s.Call(t.Context(), "Create", nil, what)
		var got *hook.ThrownError
		if !errors.As(err, &got) {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if _, err := s.Call(t.Context(), "Next", nil); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a function that is not there: %v", err)
	}
}

// TestCtx runs hooks that return parts of their ctx.
func TestCtx(t *testing.T) {
	sb := newSandbox(t)
	var out sent
	var logs bytes.Buffer
	sc := &hook.Scope{
		Sandbox: sb, Dir: "/workspace", Output: &out, Log: newLogger(&logs),
		Values: map[string]any{
			"chat_id": "c1", "assistant_id": "coder", "locale": "de", "sandbox": "never", "Send": "never",
			"authorized": map[string]any{"user_id": "u", "team_id": "t"}, "metadata": map[string]any{"__proto__": map[string]any{"x": 1}},
		},
		Process: func(_ context.Context, name string, args []any) (any, error) {
			if name != "models.user.find" {
				return nil, fmt.Errorf("%w: no such process", atoll.ErrNotFound)
			}
			return map[string]any{"id": args[0], "n": len(args)}, nil
		},
	}
	for _, c := range []struct{ law, code, want string }{
		{"Values", `return [ctx.chat_id, ctx.assistant_id, ctx.locale, ctx.authorized.user_id, typeof ctx.Send, typeof ctx.sandbox, ({}).x]`, `["c1","coder","de","u","function","object",null]`},
		{"Workdir", `return ctx.sandbox.workdir`, `"/workspace"`},
		{"Files", `ctx.sandbox.WriteFile("a/b.txt", "é\u0000ö"); return [ctx.sandbox.ReadFile("a/b.txt"), ctx.sandbox.ReadFile("/workspace/a/../a/b.txt")]`, `["é\u0000ö","é\u0000ö"]`},
		{"Awaited", `await ctx.sandbox.WriteFile("w", "1"); return await ctx.sandbox.ReadFile("w")`, `"1"`},
		{"ListDir", `return ctx.sandbox.ListDir("a/").map((f) => [f.name, f.size, f.is_dir, !isNaN(Date.parse(f.mod_time))])`, `[["b.txt",5,false,true]]`},
		{"Bytes", `ctx.sandbox.WriteFile("bin", new Uint8Array([0, 128, 255, 10])); return [...ctx.sandbox.ReadFileBytes("bin")]`, `[0,128,255,10]`},
		{"BufferBytes", `ctx.sandbox.WriteFile("bin", new Uint8Array([1, 2]).buffer); return [...ctx.workspace.ReadFileBytes("bin")]`, `[1,2]`},
		{"NotUTF8", `ctx.sandbox.WriteFile("bin", new Uint8Array([97, 255])); return ctx.sandbox.ReadFile("bin")`, `"a�"`},
		{"ModeStays", `ctx.sandbox.WriteFile("x.sh", "#!/bin/sh\n"); ctx.sandbox.Exec(["chmod", "755", "x.sh"]); ctx.sandbox.WriteFile("x.sh", "#!/bin/sh\necho hi\n"); return ctx.workspace.Stat("x.sh").mode`, `"-rwxr-xr-x"`},
		{"Exec", `return ctx.sandbox.Exec(["sh", "-c", "pwd; echo no >&2"])`, `"/workspace\n"`},
		{"ExecThrows", `try { ctx.sandbox.Exec(["sh", "-c", "echo out; echo why >&2; exit 3"]) } catch (e) { return [e instanceof Error, e.message, e.code, e.exit_code, e.stdout, e.stderr] }`, `[true,"sh: exit status 3: why","exit",3,"out\n","why\n"]`},
		{"ErrorCode", `try { ctx.sandbox.ReadFile("none") } catch (e) { return e.code }`, `"not_found"`},
		{"Computer", `const r = ctx.computer.Exec(["sh", "-c", "echo $A; cat; pwd; exit 3"], { env: { A: "b" }, stdin: "in\n", workdir: "a" }); return [r.exit_code, r.stdout, r.stderr, r.error, r.truncated, typeof r.duration_ms]`, `[3,"b\nin\n/workspace/a\n","","",false,"number"]`},
		{"ComputerShell", `return ctx.computer.Exec("echo a | tr a b").stdout`, `"b\n"`},
		{"ComputerTimeout", `const r = ctx.computer.Exec(["sleep", "100"], { timeout: 50 }); return [r.exit_code !== 0, r.error !== ""]`, `[true,true]`},
		{"ComputerTruncates", `const r = ctx.computer.Exec(["sh", "-c", "echo 12345"], { max_output: 3 }); return [r.stdout, r.truncated]`, `["123",true]`},
		{"ComputerInfo", `return [ctx.computer.id === ctx.computer.Info().id, ctx.computer.Info().driver]`, `[true,"virtual"]`},
		{"Stream", `const l = []; const r = ctx.computer.Stream(["sh", "-c", "echo a; echo b >&2"], {}, (type, data) => { l.push(type + ":" + data) }); return [l.sort(), r.exit_code]`, `[["exit:0","stderr:b\n","stdout:a\n"],0]`},
		{"StreamWhole", `let s = ""; ctx.computer.Stream(["sh", "-c", "i=0; while [ $i -lt 300 ]; do echo äöü€; i=$((i+1)); done"], (type, data) => { if (type === "stdout") s += data }); return s === "äöü€\n".repeat(300)`, `true`},
		{"StreamStops", `let n = 0; const r = ctx.computer.Stream(["sh", "-c", "while :; do echo x; done"], {}, (type) => { if (type === "stdout") return ++n < 3 }); return [n, r.error !== ""]`, `[3,true]`},
		{"Workspace", `const w = ctx.workspace; w.MkdirAll("d/e"); w.WriteFile("d/e/f", "1"); w.Copy("d", "d2"); w.Rename("d2/e/f", "d2/g"); const r = [w.Exists("d/e/f"), w.Exists("d2/e/f"), w.ReadFile("d2/g"), w.Stat("d").is_dir, w.ReadDir("d2").map((f) => f.name)]; w.Remove("d2/g"); w.RemoveAll("d"); w.RemoveAll("never"); return [...r, w.Exists("d"), w.Exists("d2/g")]`, `[true,false,"1",true,["e","g"],false,false]`},
		{"RemoveOnlyEmpty", `ctx.workspace.MkdirAll("full/x"); try { ctx.workspace.Remove("full") } catch (e) { return e.code }`, `"state"`},
		{"CopyNotInto", `try { ctx.workspace.Copy("w", "full") } catch (e) { return e.code }`, `"exists"`},
		{"Send", `const id = ctx.Send("hello"); ctx.Append(id, { delta: "x" }); ctx.Merge(id, { props: {} }); ctx.End(id, "bye"); return [id, ctx.SendStream({ type: "text" }, "own")]`, `["id1","own"]`},
		{"MessageIsNoObject", `try { ctx.Send(5) } catch (e) { return e.message }`, `"a message must be an object or a string"`},
		{"Memory", `const m = ctx.memory.user; m.Set("a", { b: [1] }); m.Set("u", undefined, 60); const r = [m.Get("a"), m.Get("u"), m.Get("none"), m.Has("a"), m.Has("none"), m.Keys(), ctx.memory.chat.Keys()]; m.Del("u"); m.Clear(); return [...r, m.Keys()]`, `[{"b":[1]},null,null,true,false,["a","u"],[],[]]`},
		{"Process", `return [Process("models.user.find", 7, {}), (() => { try { Process("x") } catch (e) { return e.code } })()]`, `[{"id":7,"n":2},"not_found"]`},
		{"Log", `log.Info("n %d of %s %%", 1, { a: 1 }, "more"); log.Trace("t"); log.Warn(new Error("w")); console.log("c", 1, null, undefined); console.error(Symbol("s")); return null`, `null`},
		{"Undefined", `return undefined`, ``},
		{"Nothing", ``, ``},
		{"Function", `return () => {}`, ``},
		{"NoWayOut", `return [typeof __host, typeof std, typeof os, typeof fetch, typeof process, typeof SharedArrayBuffer]`, `["undefined","undefined","undefined","undefined","undefined","undefined"]`},
		{"ClearTimeout", `const t = setTimeout(() => { throw new Error("late") }, 1); clearTimeout(t); await new Promise((r) => setTimeout(r, 5)); return 1`, `1`},
		{"LateTimersAreForgotten", `setTimeout(() => { throw new Error("late") }, 1); return 1`, `1`},
		{"TimersInOrder", `const l = []; await new Promise((r) => { setTimeout(() => { l.push(3); r() }, 20); setTimeout(() => l.push(1), 1); setTimeout(() => l.push(2), 2) }); return l`, `[1,2,3]`},
	} {
		t.Run(c.law, func(t *testing.T) {
			got, err := compileScript(t, "async function Create(ctx) {\n"+c.code+"\n}").Call(t.Context(), "Create", sc)
			if err != nil || string(got) != c.want {
				t.Errorf("returns %s, %v\nwant    %s", got, err, c.want)
			}
		})
	}
	if diff := cmp.Diff([]string{
		`send id1 {"type":"text","props":{"content":"hello"}}`, `append id1 {"delta":"x"}`, `merge id1 {"props":{}}`,
		`end id1 {"type":"text","props":{"content":"bye"}}`, `stream own {"type":"text"}`,
	}, out.list); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(`level=INFO msg=hook function=Create text="n 1 of {\"a\":1} % more"
level=DEBUG-4 msg=hook function=Create text=t
level=WARN msg=hook function=Create text="Error: w"
level=INFO msg=hook function=Create text="c 1 null undefined"
level=ERROR msg=hook function=Create text=Symbol(s)
`, logs.String()); diff != "" {
		t.Error(diff)
	}
}

// TestWithoutSandbox: without a sandbox its functions are missing, and a script can't
// replace them.
func TestWithoutSandbox(t *testing.T) {
	got, err := compileScript(t, `function Create(ctx) { return [ctx.sandbox, ctx.computer, ctx.workspace, ctx.Send("x"), ctx.SendStream("y")] }`).
		Call(t.Context(), "Create", &hook.Scope{Values: map[string]any{"sandbox": map[string]any{"workdir": "/"}}})
	if want := `[null,null,null,"m1","m2"]`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestOwnDirectory: without a directory it is the sandbox's own.
func TestOwnDirectory(t *testing.T) {
	sb, err := (&virtual.Driver{}).Create(t.Context(), atoll.Spec{Dir: "/srv/work"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(t.Context())) }()
	got, err := compileScript(t, `function Create(ctx) { ctx.sandbox.WriteFile("a", "1"); return [ctx.sandbox.workdir, ctx.sandbox.Exec(["cat", "/srv/work/a"])] }`).
		Call(t.Context(), "Create", &hook.Scope{Sandbox: sb})
	if want := `["/srv/work","1"]`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestCache: a script is compiled again when any file of it has changed, or one
// has come that an import would rather mean.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("index.ts", "import { x } from './x'\nfunction Create() { return x }")
	put("x.js", "export const x = 1")
	var cache hook.Cache
	compile := func(want string) *hook.Script {
		t.Helper()
		s, err := cache.Compile(os.DirFS(dir), "index.ts")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Call(t.Context(), "Create", nil); err != nil || string(got) != want {
			t.Errorf("returns %s, %v, want %s", got, err, want)
		}
		return s
	}
	first := compile("1")
	if compile("1") != first {
		t.Error("compiled again, although nothing has changed")
	}
	put("x.js", "export const x = 2")
	if second := compile("2"); second == first {
		t.Error("not compiled again")
	}
	put("x.ts", "export const x = 3")
	compile("3")
	put("index.ts", "function Create() { return 4 }")
	compile("4")
	put("index.ts", "function Create() { return")
	if _, err := cache.Compile(os.DirFS(dir), "index.ts"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := cache.Compile(os.DirFS(dir), "none.ts"); !errors.Is(err, atoll.ErrInvalid) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	s, err := hook.Compile(os.DirFS("testdata"), "create.ts")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Call(b.Context(), "Create", nil, []int{1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := hook.Compile(os.DirFS("testdata"), "create.ts"); err != nil {
			b.Fatal(err)
		}
	}
}
