package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

func testEnv(vars ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(vars); i += 2 {
			if vars[i] == name {
				return vars[i+1], true
			}
		}
		return "", false
	}
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := write(t, map[string]string{
		"deepseek/v3.conn.yao": `{
	// the one of the examples
	"label": "DeepSeek V3",
	"type": "openai", /* compatible */
	"options": {
		"proxy": "https://api.deepseek.com",
		"model": "deepseek-chat",
		"key": "$ENV.DEEPSEEK_KEY",
		"capabilities": {"vision": false},
		"thinking": {"type": "disabled"},
	},
}`,
		"claude.yaml": `
label: Claude
type: anthropic
key: ${MY_KEY}
models: ["*"]
prices:
  claude-opus: {input: 15, output: 75, cache_read: 1.5}
  "*": {input: 3, output: 15}
timeout: 90s
headers: {X-Team: blue}
`,
		"readme.md":    "no connector",
		".hidden.yaml": "no: connector",
	})
	got, err := model.Load(dir, testEnv("DEEPSEEK_KEY", "sk-deep", "MY_KEY", "sk-mine"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]model.Connector{
		"deepseek.v3": {
			Name: "deepseek.v3", Label: "DeepSeek V3", API: dialect.OpenAI, Base: "https://api.deepseek.com", Key: "sk-deep", Model: "deepseek-chat",
			Extra: map[string]any{"thinking": map[string]any{"type": "disabled"}}, Source: filepath.Join(dir, "deepseek/v3.conn.yao"),
		},
		"claude": {
			Name: "claude", Label: "Claude", API: dialect.Anthropic, Base: "https://api.anthropic.com", Key: "sk-mine", Models: []string{"*"},
			Prices:  map[string]model.Price{"claude-opus": {Input: 15, Output: 75, CacheRead: 1.5}, "*": {Input: 3, Output: 15}},
			Timeout: 90 * time.Second, Headers: map[string]string{"X-Team": "blue"}, Source: filepath.Join(dir, "claude.yaml"),
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"deepseek.v3", "deepseek/v3"} {
		if c, err := model.SelectConnector(got, name); err != nil || c.Model != "deepseek-chat" {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if _, err := model.SelectConnector(got, "nobody"); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "claude, deepseek.v3") {
		t.Error(err)
	}
	if c, err := model.SelectConnector(got, "", dialect.Anthropic); err != nil || c.Name != "claude" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestLoadTellsFileLineAndField(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"Unknown", "a.conn.yao", "{\n\"type\":\"openai\",\n\"options\":{\"model\":\"m\",\n\"moddel\":\"x\"}}", "a.conn.yao:4: options.moddel: unknown field"},
		{"UnknownYAML", "a.yaml", "type: openai\nmodel: m\nkye: x\n", "a.yaml:3: kye: unknown field"},
		{"NoVariable", "a.yaml", "type: openai\nmodel: m\nkey: $ENV.NONE\n", "a.yaml:3: key: the environment has no NONE"},
		{"NoType", "a.yaml", "model: m\n", "a.yaml: type: it is missing"},
		{"WrongType", "a.yaml", "model: m\ntype: mysql\n", `a.yaml:2: type: "mysql" is not known`},
		{"NoModel", "a.yaml", "type: openai\n", "a.yaml: model: it is missing"},
		{"NotAText", "a.yaml", "type: openai\nmodel: [m]\n", "a.yaml:2: model: it must be a text"},
		{"NotAURL", "a.yaml", "type: openai\nmodel: m\nhost: file:///etc/passwd\n", "a.yaml:3: host: it must be a URL"},
		{"Password", "a.yaml", "type: openai\nmodel: m\nhost: https://u:p@h\n", "a.yaml:3: host: it must be a URL"},
		{"Twice", "a.conn.yao", "{\"type\":\"openai\",\"model\":\"m\",\n\"model\":\"n\"}", "a.conn.yao:2: model: it is there twice"},
		{"Syntax", "a.conn.yao", "{\n\"type\": nope}", "a.conn.yao: hujson: line 2"},
		{"SyntaxYAML", "a.yaml", "a: [\n", "a.yaml:"},
		{"NotAnObject", "a.yaml", "- a\n", "a.yaml:1: it must be an object"},
		{"Timeout", "a.yaml", "type: openai\nmodel: m\ntimeout: soon\n", `a.yaml:3: timeout: "soon" is not a time`},
		{"Prices", "a.yaml", "type: openai\nmodel: m\nprices:\n  m: {input: -1}\n", "a.yaml:4: prices.m.input: a price is"},
		{"Header", "a.yaml", "type: openai\nmodel: m\nheaders:\n  \"A B\": x\n", "a.yaml:4: headers.A B: that can't be a header"},
		{"KeyWithALine", "a.yaml", "type: openai\nmodel: m\nkey: \"a\\nb\"\n", "a.yaml:3: key: a key has"},
		{"TooDeep", "a.conn.yao", strings.Repeat("[", 100), "a.conn.yao: it is nested"},
		{"Bomb", "a.yaml", "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n", "a.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := write(t, map[string]string{c.file: c.text, "good.yaml": "type: openai\nmodel: m\n"})
			got, err := model.Load(dir, testEnv())
			if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, c.want)) || !errors.Is(err, atoll.ErrInvalid) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if len(got) != 1 || got["good"].Model != "m" {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestConnectorsOfTheEnvironment(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none")
	got, err := model.Load(nowhere, testEnv("ANTHROPIC_API_KEY", "sk-a", "OPENAI_API_KEY", "sk-o", "OPENAI_BASE_URL", "http://127.0.0.1:1/v1"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range got {
		names = append(names, n)
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{"anthropic", "openai", "responses"}, names); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		likes dialect.Name
		want  string
	}{{dialect.Anthropic, "anthropic"}, {dialect.Responses, "responses"}, {dialect.Gemini, "anthropic"}} {
		if p, err := model.SelectConnector(got, "", c.likes); err != nil || p.Name != c.want {
			t.Errorf("%s: %v, %v", c.likes, p, err)
		}
	}
	got, err = model.Load(nowhere, testEnv("ATOLL_MODEL_API", "deepseek", "ATOLL_MODEL_KEY", "sk-d", "ATOLL_MODEL", "m", "ANTHROPIC_API_KEY", "sk-a"))
	if p, perr := model.SelectConnector(got, "", dialect.Anthropic); err != nil || perr != nil || p.Name != model.Default || p.Key != "sk-d" || p.Base != "https://api.deepseek.com" {
		t.Errorf("%v, %v, %v", p, err, perr)
	}
	if _, err := model.SelectConnector(nil, ""); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
		t.Error(err)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	c := model.Connector{Name: "n", API: dialect.OpenAI, Key: key, Headers: map[string]string{"Authorization": "Bearer " + key, "X-Team": "blue"}}
	a := &model.Access{Connector: c}
	all := map[string]model.Connector{"n": c}
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "c", c, "p", &c, "all", all)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "c", c, "p", &c, "all", all)
	for _, f := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		out.WriteString(fmt.Sprintf(f, c) + fmt.Sprintf(f, &c) + fmt.Sprintf(f, a.Connector) + fmt.Sprintf(f, all))
	}
	for _, v := range []any{c, &c, all, []model.Connector{c}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	if strings.Contains(out.String(), key) {
		t.Error(out.String())
	}
	if !strings.Contains(out.String(), "blue") || !strings.Contains(out.String(), "***") {
		t.Error("nothing else is shown either")
	}
}
