package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// testEnv is what $ENV means in tests.
func testEnv(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret", "BRACES": "{{user}}"}[name]
	return v, ok
}

var processes = func() tool.Processes {
	p := tool.BuiltinProcesses(func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) })
	p["models.user.find"] = func(_ context.Context, who tool.Caller, args []any) (any, error) {
		return fmt.Sprintf("%v for %s", args, who.Owner.User), nil
	}
	p["models.user.fail"] = func(context.Context, tool.Caller, []any) (any, error) { return nil, errors.New("db down") }
	p["models.secret"] = func(context.Context, tool.Caller, []any) (any, error) { return "secret", nil }
	return p
}()

// writeFiles writes files into a new directory.
func writeFiles(t *testing.T, list map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range list {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load reads one server and returns an offer of its tools.
func load(t *testing.T, name, text string) *tool.Toolset {
	t.Helper()
	s, err := tool.Load(writeFiles(t, map[string]string{name: text}), processes, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // never fails
	tools, err := s.Tools(t.Context(), s.Names()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tool.Toolset{Caller: who, Tools: tools, Log: func(e tool.Event) {
		if e.Err != "" {
			t.Logf("%s: %s", e.Tool, e.Err)
		}
	}}
}

// wantText calls a tool and compares its answer; a want that begins with "…" is a
// part, one with "!" that of a failure.
func wantText(t *testing.T, o *tool.Toolset, name, input, want string) {
	t.Helper()
	r, err := o.Call(t.Context(), name, json.RawMessage(input), nil)
	text, failed := strings.CutPrefix(want, "!")
	part, isPart := strings.CutPrefix(text, "…")
	if err != nil || r.Failed != failed || !isPart && r.Text != text || isPart && !strings.Contains(r.Text, part) {
		t.Errorf("%s %s: %q, failed %v, %v; want %q", name, input, r.Text, r.Failed, err, want)
	}
}

func TestProcesses(t *testing.T) {
	o := load(t, "p.mcp.yao", `{
		// a comment
		"transport": "process", "name": "Processes",
		"tools": {
			"find": "models.user.find",
			"by_id": {"process": "models.user.find", "args": ["{{id}}", {"who": "{{who.user}}", "n": "{{n}}"}, "id-{{id}}", 3], "description": "Finds.",
				"schema": {"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": "number"}}, "required": ["id"]}},
			"fail": "models.user.fail",
			"time": {"process": "atoll.time", "args": ["{{zone}}"]},
			"who": "atoll.who",
			"yao.process": {"allow": ["models.user.*", "atoll.echo"]}, /* a trailing comma: */
		},
	}`)
	for _, c := range [][3]string{
		{"find", `{"a":1}`, `[map[a:1]] for ann`},
		{"by_id", `{"id":7}`, `[7 map[who:ann] id-7 3] for ann`},
		{"by_id", `{"id":"7"}`, `!Invalid input: field "id" must be an integer, not "7"`},
		{"fail", `{}`, "!The tool failed. The reason is in the log of the host."},
		{"time", `{"zone":"Europe/Berlin"}`, "2026-11-21T13:00:00+01:00"},
		{"time", `{"zone":"../../etc/passwd"}`, "!…There is no time zone"},
		{"time", `{}`, `!Invalid input: field "zone" is missing`},
		{"who", `{}`, `{"app":"shop","assistant":"coder","chat":"c1","turn":"t1","user":"ann"}`},
		{"yao_process", `{"name":"models.user.find","args":[1,"x"]}`, `[1 x] for ann`},
		{"yao_process", `{"name":"atoll.echo","args":[{"deep":[1]}]}`, `{"deep":[1]}`},
		{"yao_process", `{"name":"models.secret"}`, `!Invalid input: field "name" must be one of ["atoll.echo","models.user.fail","models.user.find"], not "models.secret"`},
		{"yao_process", `{"name":"models.user.*"}`, `!…must be one of`},
		{"yao_process", `{"name":"models.user.find\u0000"}`, `!…must be one of`},
	} {
		wantText(t, o, c[0], c[1], c[2])
	}
}

func TestMistakesInFiles(t *testing.T) {
	for _, c := range []struct{ law, name, text, want string }{
		{"NoTransport", "s.mcp.yao", `{}`, `s.mcp.yao:1: transport: it must be one of command, http, process, sse, stdio, streamable-http, not ""`},
		{"NoJSON", "s.mcp.yao", "{\n\"a\": nope}", "s.mcp.yao: it is not valid JSON"},
		{"NoYAML", "s.yaml", "a: [", "s.yaml:"},
		{"AliasesInYAML", "s.yaml", "transport: &a process\ntools: {x: *a}", "s.yaml:2: *a: aliases are not supported"},
		{"List", "s.mcp.yao", "[]", "s.mcp.yao:1: it must be an object, not a list"},
		{"UnknownField", "s.mcp.yao", "{\"transport\":\"process\",\n\"tools\":{},\n\"too\":1}", "s.mcp.yao:3: too: unknown field"},
		{"FieldTwice", "s.mcp.yao", "{\"transport\":\"process\",\n\"transport\":\"sse\",\n\"tools\":{}}", "s.mcp.yao:2: transport: is set already in line 1"},
		{"NoTools", "s.mcp.yao", `{"transport":"process"}`, "s.mcp.yao:1: tools: it is missing"},
		{"UnknownProcess", "s.yaml", "transport: process\ntools:\n  x: nope\n", `s.yaml:3: tools.x: there is no process "nope"; there is: atoll.echo`},
		{"UnknownProcessOfObject", "s.yaml", "transport: process\ntools:\n  x:\n    process: nope\n", `s.yaml:4: tools.x.process: there is no process "nope"`},
		{"UnknownAllowed", "s.yaml", "transport: process\ntools:\n  x:\n    allow: [model.*]\n", `s.yaml:4: tools.x.allow[0]: there is no process "model.*"`},
		{"AllowIsNotAPrefixOfLetters", "s.yaml", "transport: process\ntools:\n  x:\n    allow: ['mod*']\n", `s.yaml:4: tools.x.allow[0]: there is no process "mod*"`},
		{"UnknownToolField", "s.yaml", "transport: process\ntools:\n  x:\n    process: atoll.echo\n    shema: {}\n", `s.yaml:5: tools.x.shema: unknown field`},
		{"SchemaIsNoObject", "s.yaml", "transport: process\ntools:\n  x:\n    process: atoll.echo\n    schema: {type: array}\n", `s.yaml:4: tools.x.schema: its schema has type array`},
		{"SchemaIsWrong", "s.yaml", "transport: process\ntools:\n  x:\n    process: atoll.echo\n    schema: {properties: {a: {type: 7}}}\n", `s.yaml:4: tools.x.schema: its schema`},
		{"PlaceIsNotInTheSchema", "s.yaml", "transport: command\ntools:\n  x:\n    command: [ls, '{{path}}']\n    schema: {properties: {paht: {type: string}}}\n", `s.yaml:5: tools.x.schema: it has no property "path"`},
		{"PlaceIsWrong", "s.yaml", "transport: command\ntools:\n  x:\n    command: [ls, '{{$(id)}}']\n", `s.yaml:4: tools.x.command[1]: {{$(id): it must be {{FIELD}}`},
		{"WhoIsWrong", "s.yaml", "transport: command\ntools:\n  x:\n    command: [ls, '{{who.key}}']\n", `s.yaml:4: tools.x.command[1]: {{who.key}}: there is who.app`},
		{"ProgramIsFixed", "s.yaml", "transport: command\ntools:\n  x:\n    command: ['{{p}}']\n", `s.yaml:4: tools.x.command: its first is the program`},
		{"ProgramIsFixedInPart", "s.yaml", "transport: command\ntools:\n  x:\n    command: ['/bin/{{p}}']\n", `s.yaml:4: tools.x.command: its first is the program`},
		{"CommandIsAList", "s.yaml", "transport: command\ntools:\n  x:\n    command: ls -l\n", `s.yaml:4: tools.x.command: it must be a list of texts, not a text`},
		{"Timeout", "s.yaml", "transport: command\ntimeout: soon\ntools: {}\n", `s.yaml:2: timeout: it must be a time like 30s`},
		{"SecretIsNotSet", "s.yaml", "transport: http\nbase: https://x\nheaders:\n  Authorization: Bearer $ENV.NOPE\ntools: {}\n", `s.yaml:4: headers.Authorization: NOPE is not set`},
		{"HostFromInput", "s.yaml", "transport: http\nbase: https://{{host}}/x\ntools: {}\n", `s.yaml:2: base: it can't come from the input`},
		{"BaseIsNoAddress", "s.yaml", "transport: http\nbase: file:///etc\ntools: {}\n", `s.yaml:2: base: it must be an address`},
		{"BaseHasAUser", "s.yaml", "transport: http\nbase: https://a:b@x/\ntools: {}\n", `s.yaml:2: base: it must be scheme, host and path only`},
		{"HostHeader", "s.yaml", "transport: http\nbase: https://x\ntools:\n  a:\n    headers: {host: y}\n", `s.yaml:5: tools.a.headers: Host can't be set`},
		{"Method", "s.yaml", "transport: http\nbase: https://x\ntools:\n  a:\n    method: CONNECT\n", `s.yaml:5: tools.a.method: it must be one of`},
		{"QueryInPath", "s.yaml", "transport: http\nbase: https://x\ntools:\n  a:\n    path: /a?b={{c}}\n", `s.yaml:5: tools.a.path: it must be a path only`},
		{"Size", "s.yaml", "transport: http\nbase: https://x\nmax_response: 1g\ntools: {}\n", `s.yaml:3: max_response: it must be a size`},
		{"URL", "s.yaml", "transport: sse\nurl: nope\n", `s.yaml:2: url: it must be an address`},
		{"HeadersOfServersAreFixed", "s.yaml", "transport: sse\nurl: https://x\nheaders: {A: '{{x}}'}\n", `s.yaml:3: headers: A: it can't come from the input`},
		{"NoCommand", "s.yaml", "transport: stdio\n", `s.yaml:1: command: it is missing`},
		{"DeepFile", "s.mcp.yao", strings.Repeat("[", 100_000), `s.mcp.yao: it is nested more than 64 levels deep`},
	} {
		t.Run(c.law, func(t *testing.T) {
			s, err := tool.Load(writeFiles(t, map[string]string{c.name: c.text, "good.yaml": "transport: process\ntools: {echo: atoll.echo}\n"}), processes, testEnv)
			if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), string(filepath.Separator)+c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if !slices.Equal(s.Names(), []string{"good"}) {
				t.Errorf("servers: %v", s.Names())
			}
		})
	}
	if _, err := tool.Load(writeFiles(t, map[string]string{"s.yaml": "transport: process\ntools: {}", "s.mcp.yao": `{"transport":"process","tools":{}}`}), processes, testEnv); err == nil || !strings.Contains(err.Error(), `is the server "s" already`) {
		t.Errorf("two files of one server: %v", err)
	}
	if s, err := tool.Load("/nope", processes, testEnv); err != nil || len(s.Names()) != 0 {
		t.Errorf("no directory: %v, %v", s, err)
	}
}

func TestOnlySomeTools(t *testing.T) {
	s, err := tool.Load(writeFiles(t, map[string]string{"fs.yaml": "transport: process\ntools: {a: atoll.echo, b: atoll.echo}\n"}), processes, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.Tools(t.Context(), "fs", []string{"b"}); err != nil || len(list) != 1 || list[0].Name != "b" || list[0].Server != "fs" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := s.Tools(t.Context(), "fs", []string{}); err != nil || len(list) != 0 {
		t.Errorf("none: %v, %v", list, err)
	}
	if _, err := s.Tools(t.Context(), "fs", []string{"c"}); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "there is: a, b") {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := s.Tools(t.Context(), "nope", nil); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "there is: fs") {
		t.Errorf("unknown server: %v", err)
	}
}

func TestCommands(t *testing.T) {
	t.Setenv("ATOLL_TEST_HIDDEN", "hidden")
	t.Setenv("ATOLL_TEST_PASSED", "passed")
	o := load(t, "c.yaml", `
transport: command
pass: [ATOLL_TEST_PASSED]
env: {TOKEN: $ENV.TOKEN, WHO: "{{who.user}}", BRACES: $ENV.BRACES}
tools:
  args:
    command: [printf, '<%s>', '{{a}}', 'x={{b}}', '{{list}}']
    schema: {properties: {a: {}, b: {type: string}, list: {type: array}}}
  after: {command: [printf, --, '<%s>', '{{a}}']}
  cat: {command: [cat], schema: {}}
  stdin: {command: [cat], stdin: 'said {{what}}'}
  env: {command: [env], schema: {}}
  status: {command: [sh, -c, 'echo out; echo err >&2; exit 3']}
  json: {command: [echo, '{"n": 1}'], output: json}
  slow: {command: [sh, -c, 'echo begun; sleep 60'], timeout: 200ms}
  big: {command: [sh, -c, 'yes | head -c 3000000'], timeout: 20s}
  missing: {command: [/nope/program]}
`)
	for _, c := range [][3]string{
		{"args", `{"a":"one two","b":"$(id); 'q'"}`, `<one two><x=$(id); 'q'>`},
		{"args", `{"a":"a\nb","list":["c d",1,true,{"e":2}]}`, "<a\nb><c d><1><true><{\"e\":2}>"},
		{"args", `{}`, "<>"},
		{"args", `{"a":"--help"}`, `!Invalid input: field "a" must not begin with a hyphen.`},
		{"args", `{"list":["ok","-rf"]}`, `!Invalid input: field "list" must not begin with a hyphen.`},
		{"args", `{"b":"-v"}`, "<x=-v>"},
		{"args", `{"a":"x\u0000y"}`, "!Invalid input: a value has a zero byte."},
		{"args", `{"a":"` + strings.Repeat("x", 200_000) + `"}`, "!Invalid input: a value has 200000 bytes: the limit is 131071."},
		{"after", `{"a":"-x"}`, "<-x>"},
		{"cat", `{"k":[1,2]}`, `{"k":[1,2]}`},
		{"stdin", `{"what":"-n hi"}`, "said -n hi"},
		{"status", `{}`, "!out\n[stderr]\nerr\n[exit status 3]"},
		{"json", `{}`, `{"n": 1}` + "\n"},
		{"slow", `{}`, "!begun\n[ended after 200ms; what it wrote until then is above]"},
		{"big", `{}`, "…2880000 more bytes left out"},
		{"missing", `{}`, "!The tool failed. The reason is in the log of the host."},
	} {
		wantText(t, o, c[0], c[1], c[2])
	}
	r, err := o.Call(t.Context(), "env", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"TOKEN=s3cret", "WHO=ann", "BRACES={{user}}", "ATOLL_TEST_PASSED=passed", "ATOLL_USER=ann", "ATOLL_APP=shop", "ATOLL_CHAT=c1", "ATOLL_TURN=t1"} {
		if !strings.Contains(r.Text, line+"\n") {
			t.Errorf("no %s in the environment:\n%s", line, r.Text)
		}
	}
	if strings.Contains(r.Text, "hidden") {
		t.Errorf("the environment is not an allow-list:\n%s", r.Text)
	}
}

// waitForExit waits until a process that is not a child has exited: its parent may reap it later.
func waitForExit(t *testing.T, pid int) {
	t.Helper()
	testenv.WaitFor(t, fmt.Sprintf("process %d exits", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestCommandLeavesNothing: children that leave their group and session end with
// the call, at its deadline, its cancellation, and its good end.
func TestCommandLeavesNothing(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("there is no /proc")
	}
	dir := t.TempDir()
	o := load(t, "c.yaml", `
transport: command
dir: `+dir+`
tools:
  deadline: {command: [sh, -c, 'setsid sh -c "echo \$\$ > one; exec sleep 60" & (setsid setsid sleep 60 & echo $! > x) ; while ! test -s one; do :; done; sleep 60'], timeout: 500ms}
  cancel: {command: [sh, -c, 'setsid sh -c "echo \$\$ > two; exec sleep 60" & while ! test -s two; do :; done; sleep 60']}
  good: {command: [sh, -c, 'setsid sh -c "echo \$\$ > three; exec sleep 60" >/dev/null 2>&1 & while ! test -s three; do :; done; echo done']}
`)
	gone := func(name string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Sscan(string(b), &pid); err != nil {
			t.Fatal(err)
		}
		waitForExit(t, pid)
	}
	stranger := exec.CommandContext(t.Context(), "sleep", "60") // of the same parent, and none of theirs
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Signal(syscall.SIGTERM) // it may have been ended, which is what is looked for
		_ = stranger.Wait()                          // it has a status
		if ws, ok := stranger.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGTERM {
			t.Errorf("a stranger was ended: %v", stranger.ProcessState)
		}
	}()
	wantText(t, o, "deadline", `{}`, "!…ended after 500ms")
	gone("one")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testenv.Poll(ctx, func() bool {
			st, err := os.Stat(filepath.Join(dir, "two"))
			return err == nil && st.Size() > 0 // it is created before it is written
		})
		cancel()
	}()
	if _, err := o.Call(ctx, "cancel", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	gone("two")
	wantText(t, o, "good", `{}`, "done\n")
	gone("three")
}

func TestRequests(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked: %s %v", r.URL, r.Header)
	}))
	defer evil.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/away"):
			http.Redirect(w, r, evil.URL+"/x", http.StatusFound)
			return
		case strings.HasSuffix(r.URL.Path, "/here"):
			http.Redirect(w, r, "/v1/there", http.StatusFound)
			return
		case strings.HasSuffix(r.URL.Path, "/teapot"):
			http.Error(w, "short and stout", http.StatusTeapot)
			return
		case strings.HasSuffix(r.URL.Path, "/image"):
			w.Header().Set("Content-Type", "image/png")
		case strings.HasSuffix(r.URL.Path, "/big"):
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			return
		case strings.HasSuffix(r.URL.Path, "/hang"):
			<-r.Context().Done()
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("X-User"), b)
	}))
	defer api.Close()
	defer http.DefaultClient.CloseIdleConnections()
	o := load(t, "h.yaml", `
transport: http
base: `+api.URL+`/v1
headers: {Authorization: Bearer $ENV.TOKEN, X-User: "{{who.user}}"}
timeout: 5s
tools:
  get: {path: "/repos/{{repo}}/issues/{{n}}", query: {q: "{{q}}", fixed: "1", tag: "{{tags}}"}, schema: {properties: {repo: {type: string}, n: {type: integer}, q: {type: string}, tags: {type: array}}}}
  plain: {path: "/{{p}}"}
  root: {schema: {}}
  post: {path: /x, body: {name: "{{name}}", n: "{{n}}", text: "hi {{name}}", list: [1, "{{who.user}}"]}, schema: {properties: {name: {}, n: {}}}}
  put: {method: put, path: /x, schema: {}}
  header: {path: /x, headers: {X-User: "{{h}}"}}
  away: {path: /away}
  here: {path: /here}
  teapot: {path: /teapot}
  image: {path: /image}
  big: {path: /big, max_response: 1k}
  hang: {path: /hang, timeout: 100ms}
`)
	for _, c := range [][3]string{
		{"get", `{"repo":"a b/c?d#e&f","n":7,"q":"x&y=z","tags":["a","b"]}`, "GET /v1/repos/a%20b%2Fc%3Fd%23e&f/issues/7?fixed=1&q=x%26y%3Dz&tag=a&tag=b Bearer s3cret ann "},
		{"get", `{"n":7}`, "!Invalid input: a field that is part of the path is missing."},
		{"get", `{"repo":"..","n":7}`, `!Invalid input: field "repo" must not have . or .. in it`},
		{"get", `{"repo":"a/../../admin","n":7}`, `!Invalid input: field "repo" must not have . or .. in it`},
		{"get", `{"repo":"%2e%2e%2fadmin","n":7}`, `!Invalid input: field "repo" must not have . or .. in it`},
		{"get", `{"repo":"%252e%252e","n":7}`, `!Invalid input: field "repo" must not have . or .. in it`},
		{"get", `{"repo":"..\\admin","n":7}`, `!Invalid input: field "repo" must not have . or .. in it`},
		{"get", `{"repo":"","n":7}`, `!Invalid input: field "repo" must not be empty`},
		{"plain", `{"p":"@evil.example"}`, "GET /v1/@evil.example Bearer s3cret ann "},
		{"plain", `{"p":"//evil.example/x"}`, "GET /v1/%2F%2Fevil.example%2Fx Bearer s3cret ann "},
		{"plain", `{"p":"http://evil.example"}`, "GET /v1/http:%2F%2Fevil.example Bearer s3cret ann "},
		{"plain", `{"p":"a\r\nHost: evil"}`, "GET /v1/a%0D%0AHost:%20evil Bearer s3cret ann "},
		{"root", `{}`, "GET /v1 Bearer s3cret ann "},
		{"post", `{"name":"x\",\"admin\":true","n":12345678901234567890}`, `POST /v1/x Bearer s3cret ann {"list":[1,"ann"],"n":12345678901234567890,"name":"x\",\"admin\":true","text":"hi x\",\"admin\":true"}`},
		{"put", `{"a":1}`, `PUT /v1/x Bearer s3cret ann {"a":1}`},
		{"header", `{"h":"a\r\nAuthorization: none"}`, "!Invalid input: a value that goes into a header has more than one line."},
		{"away", `{}`, "!The tool failed. The reason is in the log of the host."},
		{"here", `{}`, "GET /v1/there Bearer s3cret ann "},
		{"teapot", `{}`, "!HTTP 418 I'm a teapot\nshort and stout\n"},
		{"big", `{}`, "…[the answer has more than 1024 bytes]"},
		{"hang", `{}`, "!The tool took too long and was ended."},
	} {
		wantText(t, o, c[0], c[1], c[2])
	}
	if r, err := o.Call(t.Context(), "image", nil, nil); err != nil || len(r.Images) != 1 || r.Images[0].Type != "image/png" {
		t.Errorf("a picture: %v, %v", r, err)
	}
}

// TestUpstream passes the tools of another server on, over each transport.
func TestUpstream(t *testing.T) {
	var gone []func()
	other := func() *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "other", Version: "1"}, nil)
		add := func(name string, f func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
			s.AddTool(&sdk.Tool{Name: name, Description: "Of another.", InputSchema: map[string]any{"type": "object", "$defs": map[string]any{}}}, f)
		}
		add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}, &sdk.TextContent{Text: fmt.Sprint(r.Params.Meta["atoll/user"])}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("x")}}}, nil
		})
		add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "broken"}}}, nil
		})
		add("hidden", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { panic("hidden") })
		add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "half"})
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return &sdk.CallToolResult{}, err
		})
		return s
	}
	defer func() {
		for _, f := range gone {
			f()
		}
	}()
	one := other()
	stream := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, nil))
	sse := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return one }, nil))
	gone = append(gone, stream.Close, sse.Close, http.DefaultClient.CloseIdleConnections)
	for transport, address := range map[string]string{"streamable-http": stream.URL, "http": stream.URL, "sse": sse.URL} {
		t.Run(transport, func(t *testing.T) {
			o := load(t, "u.yaml", "transport: "+transport+"\nurl: "+address+"\ntools: [echo, fail, progress]\nheaders: {Authorization: Bearer $ENV.TOKEN}\n")
			if list := o.List(); len(list) != 3 || list[0].Name != "echo" || list[0].Description != "Of another." {
				t.Fatalf("tools: %v", list)
			}
			wantText(t, o, "echo", `{"a":[1]}`, "{\"a\":[1]}\nann")
			wantText(t, o, "fail", `{}`, "!broken")
			told := make(chan string, 1)
			r, err := o.Call(t.Context(), "progress", nil, func(done, total float64, message string) { told <- fmt.Sprint(done, total, " ", message) })
			if err != nil || r.Failed {
				t.Errorf("progress: %v, %v", r, err)
			}
			select {
			case m := <-told:
				if m != "1 2 half" {
					t.Errorf("told %q", m)
				}
			case <-time.After(time.Minute):
				t.Error("no progress was told")
			}
		})
	}
}

func TestUpstreamThatIsNotThere(t *testing.T) {
	for _, text := range []string{"transport: sse\nurl: http://127.0.0.1:1/\n", "transport: streamable-http\nurl: http://127.0.0.1:1/\n", "transport: stdio\ncommand: /nope/x\n", "transport: stdio\ncommand: ['false']\n"} {
		s, err := tool.Load(writeFiles(t, map[string]string{"u.yaml": text}), processes, testEnv)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // it is not tried each time
			if _, err := s.Tools(t.Context(), "u", nil); !errors.Is(err, atoll.ErrUnavailable) {
				t.Errorf("%s: %v", text, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serveStdio makes this test binary a server on its standard streams, with a
// child that has left its group.
const serveStdio = "ATOLL_TEST_TOOL_SERVER"

func stdioServer() {
	child := exec.Command("setsid", "sleep", "60") //nolint:noctx // that it outlives is what is tested
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "stdio", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "pids", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(os.Getpid(), " ", child.Process.Pid)}}}, nil
	})
	s.AddTool(&sdk.Tool{Name: "die", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	s.AddTool(&sdk.Tool{Name: "wait", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		return &sdk.CallToolResult{}, os.WriteFile(os.Getenv("ATOLL_TEST_CANCELLED"), []byte("cancelled"), 0o600)
	})
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) // it ends with its client
}

// TestUpstreamProgram: the program of a server is restarted after it has exited, gets
// cancellations, and leaves no processes behind.
func TestUpstreamProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(t.TempDir(), "cancelled")
	s, err := tool.Load(writeFiles(t, map[string]string{"p.yaml": "transport: stdio\ncommand: " + self + "\nenv: {" + serveStdio + ": '1', ATOLL_TEST_CANCELLED: " + mark + "}\n"}), processes, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := s.Tools(t.Context(), "p", nil)
	if err != nil || len(tools) != 3 {
		t.Fatalf("%v, %v", tools, err)
	}
	o := &tool.Toolset{Caller: who, Tools: tools}
	pids := func() (list [2]int) {
		t.Helper()
		r, err := o.Call(t.Context(), "pids", nil, nil)
		if _, serr := fmt.Sscan(r.Text, &list[0], &list[1]); err != nil || serr != nil {
			t.Fatal(r, err, serr)
		}
		return list
	}
	first := pids()
	if again := pids(); again != first {
		t.Errorf("each call has a program of its own: %v, %v", first, again)
	}
	if r, err := o.Call(t.Context(), "die", nil, nil); err != nil || !r.Failed {
		t.Errorf("a server that dies: %v, %v", r, err)
	}
	second := pids()
	if second[0] == first[0] {
		t.Errorf("it is not begun anew")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := o.Call(ctx, "wait", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled call: %v", err)
	}
	testenv.WaitFor(t, "the server hears of the cancellation", func() bool { _, err := os.Stat(mark); return err == nil })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{first[0], first[1], second[0], second[1]} {
		waitForExit(t, pid)
	}
	if _, err := s.Tools(t.Context(), "p", nil); !errors.Is(err, atoll.ErrState) {
		t.Errorf("after Close: %v", err)
	}
}
