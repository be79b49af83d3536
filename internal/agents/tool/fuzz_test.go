package tool_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// FuzzLoad: no file makes the reader panic or take long, and loaded tools can be offered.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		`{"transport":"process","tools":{"a":"atoll.echo","b":{"process":"atoll.time","args":["{{zone}}"]},"yao.process":{"allow":["atoll.*"]}}}`,
		`{"transport":"command","dir":"/","env":{"A":"$ENV.TOKEN"},"tools":{"x":{"command":["ls","--","{{a.b}}"],"stdin":"{{who.user}}","timeout":"1s","output":"json"}}}`,
		`{"transport":"http","base":"https://x/y","tools":{"x":{"path":"/{{a}}","query":{"q":"{{b}}"},"body":{"c":["{{c}}",1,null]},"schema":{"properties":{"a":{},"b":{},"c":{}}}}}}`,
		"transport: stdio\ncommand: x\nargs: [a, b]\ntools: [c]\n",
		"transport: sse\nurl: http://x\nheaders: {A: '${TOKEN}'}\n",
		"a: &a [x]\nb: *a\n", "{{{{", "\x00", `{"tools":`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, yaml bool) {
		here, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(here)
		name := "s.mcp.yao"
		if yaml {
			name = "s.yaml"
		}
		if err := os.WriteFile(filepath.Join(here, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := tool.Load(here, processes, testEnv)
		if (err == nil) != s.Has("s") {
			t.Errorf("error %v, servers %v", err, s.Names())
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("a secret is told: %v", err)
		}
		if names, ok := s.ToolNames("s"); ok && !strings.Contains(string(text), "url") && !strings.Contains(string(text), "stdio") {
			tools, err := s.Tools(t.Context(), "s", nil)
			if err != nil || len(tools) != len(names) {
				t.Fatalf("%d tools, %d names, %v", len(tools), len(names), err)
			}
			if list := (&tool.Toolset{Tools: tools}).List(); len(list) != len(tools) {
				t.Errorf("%d tools, %d offered", len(tools), len(list))
			}
		}
	})
}

// FuzzCall: whatever a model sends, a program gets whole arguments of it that are
// no options, and a request stays on its host and path.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{`{"a":"x"}`, `{"a":"-x"}`, `{"a":["-x"]}`, `{"a":"../.."}`, `{"a":"%2e%2e/"}`, `{"a":{"b":[1e99]}}`, `{"a":"\u0000"}`, `{"a":"//h/"}`, `[`, `{"a":1}{}`, `{"a":"x","a":"--"}`} {
		f.Add(seed)
	}
	reached := func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.RequestURI)) }
	host := newHost(f, reached)
	s, err := tool.Load(serverFile(f, "transport: http\nbase: "+host+"/v1\ntools:\n  get: {path: '/in/{{a}}/x', schema: {properties: {a: {}}}}\n"), nil, testEnv)
	if err != nil {
		f.Fatal(err)
	}
	c, err := tool.Load(serverFile(f, "transport: command\ntools:\n  run: {command: [printf, '%s\\0', first, '{{a}}', last], schema: {properties: {a: {}}}}\n"), nil, testEnv)
	if err != nil {
		f.Fatal(err)
	}
	get, err1 := s.Tools(f.Context(), "s", nil)
	run, err2 := c.Tools(f.Context(), "s", nil)
	if err1 != nil || err2 != nil {
		f.Fatal(err1, err2)
	}
	o := &tool.Toolset{Caller: who, Tools: append(get, run...)}
	inside := regexp.MustCompile(`^/v1/in/[^/?#]+/x$`)
	f.Fuzz(func(t *testing.T, input string) {
		r, err := o.Call(t.Context(), "get", json.RawMessage(input), nil)
		if err != nil || !r.Failed && !inside.MatchString(r.Text) {
			t.Errorf("%q reached %q, %v", input, r.Text, err)
		}
		r, err = o.Call(t.Context(), "run", json.RawMessage(input), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed {
			return
		}
		args := strings.Split(strings.TrimSuffix(r.Text, "\x00"), "\x00")
		if args[0] != "first" || !strings.Contains(r.Text, "bytes left out") && args[len(args)-1] != "last" {
			t.Errorf("%q ran with %q", input, args)
		}
		for _, a := range args {
			if strings.HasPrefix(a, "-") {
				t.Errorf("%q ran with the option %q", input, a)
			}
		}
	})
}

// newHost serves until the end of the test.
func newHost(f *testing.F, h http.HandlerFunc) string {
	f.Helper()
	s := httptest.NewServer(h)
	f.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s.URL
}

// serverFile writes one server's file.
func serverFile(f *testing.F, text string) string {
	f.Helper()
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	return dir
}
