package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Plan places Codex's configuration in its state directory, which outlives the
// sandbox, and runs it with the prompt on its input.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	set, err := configuration(t, at, a.Features())
	if err != nil {
		return nil, fmt.Errorf("agent codex: %w", err)
	}
	files, err := agent.Place(t.Skills, path.Join(at.State, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent codex: %w", err)
	}
	files = append(files, agent.File{Path: path.Join(at.State, "config.toml"), Data: set})
	p := &agent.Plan{
		Env: append([]string{"CODEX_HOME=" + at.State, "ATOLL_MODEL_KEY=none"}, t.Env...),
	}
	program := []string{"codex"}
	if len(t.Command) > 0 {
		program = slices.Clone(t.Command)
	}
	if serves(t) {
		p.Args, p.Files = append(program, "app-server", "--disable", "plugins"), files
		return p, nil
	}
	p.Args = append(program, "exec", "--json", "--skip-git-repo-check", "--disable", "plugins", "--dangerously-bypass-approvals-and-sandbox")
	if t.Schema != nil {
		file := path.Join(at.State, "schema.json")
		files = append(files, agent.File{Path: file, Data: t.Schema})
		p.Args = append(p.Args, "--output-schema", file)
	}
	if t.Session != "" {
		p.Args = append(p.Args, "resume", t.Session)
	}
	for _, c := range t.Prompt {
		if c.Path != "" && isImage(c) {
			p.Args = append(p.Args, "--image="+c.Path)
		}
	}
	p.Args = append(p.Args, "-")
	p.Files, p.Stdin = files, []byte(agent.Plain(t.Prompt))
	return p, nil
}

func isImage(c agent.Content) bool { return strings.HasPrefix(c.Type, "image/") }

// configuration returns config.toml.
func configuration(t *agent.Turn, at agent.Site, f agent.Features) ([]byte, error) {
	var effort string
	var search, server bool
	errs := []error{t.Check(f), t.Argument("effort", &effort), t.Argument("search", &search), t.Argument("server", &server)}
	if serves(t) && t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a schema of the answer, through the app server", atoll.ErrUnsupported))
	}
	if strings.HasPrefix(t.Session, "-") {
		errs = append(errs, fmt.Errorf("%w: session %q", atoll.ErrInvalid, t.Session))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var b toml
	b.set("check_for_update_on_startup", false)
	if model := modelOf(t, at); model != "" {
		b.set("model", model)
	}
	if effort != "" {
		b.set("model_reasoning_effort", effort)
	}
	if t.System != "" {
		b.set("developer_instructions", t.System)
	}
	web := "disabled"
	if search {
		web = "live"
	}
	b.set("web_search", web)
	if !serves(t) { // else the app server is told
		b.set("approval_policy", "never")
	}
	b.set("sandbox_mode", "danger-full-access") // the walls are around it
	trust := "trusted"
	if !t.Trust {
		trust = "untrusted"
		b.set("project_doc_max_bytes", 0)
	}
	b.provider(at)
	b.table("analytics")
	b.set("enabled", false)
	b.table("projects." + quote(at.Dir))
	b.set("trust_level", trust)
	if len(at.Tools) > 0 {
		b.table("mcp_servers.atoll")
		b.set("command", at.Tools[0])
		b.set("args", at.Tools[1:])
		b.set("tool_timeout_sec", 3600)
	}
	return []byte(b.String()), nil
}

// modelOf names the model. With its own default Codex offers tools in a way that
// only that model and its like know.
func modelOf(t *agent.Turn, at agent.Site) string {
	if t.Model == "" && at.Model != "" {
		return "gpt-5-codex"
	}
	return t.Model
}

// provider tells where the model is asked.
func (b *toml) provider(at agent.Site) {
	if at.Model == "" {
		return
	}
	b.set("model_provider", "atoll")
	b.table("model_providers.atoll")
	b.set("name", "atoll")
	b.set("base_url", at.Model+"/v1")
	b.set("env_key", "ATOLL_MODEL_KEY")
	b.set("wire_api", "responses")
	b.set("request_max_retries", 3)
	b.set("stream_max_retries", 3)
}

// toml is a file of that format as it is written.
type toml struct{ strings.Builder }

func (b *toml) table(name string) { fmt.Fprintf(b, "\n[%s]\n", name) }

func (b *toml) set(key string, value any) {
	switch v := value.(type) {
	case string:
		fmt.Fprintf(b, "%s = %s\n", key, quote(v))
	case []string:
		list := make([]string, len(v))
		for i, s := range v {
			list[i] = quote(s)
		}
		fmt.Fprintf(b, "%s = [%s]\n", key, strings.Join(list, ", "))
	default:
		fmt.Fprintf(b, "%s = %v\n", key, v)
	}
}

// quote writes a string as JSON does, which TOML reads; but for one character.
func quote(s string) string {
	q, _ := json.Marshal(s) // strings always are JSON
	return strings.ReplaceAll(string(q), "\x7f", `\u007f`)
}
