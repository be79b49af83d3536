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

// Plan places Codex's configuration in its state directory and runs it with the
// prompt on its input.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	set, err := buildConfig(t, at, a.Features())
	if err != nil {
		return nil, fmt.Errorf("agent codex: %w", err)
	}
	files, err := agent.SkillFiles(t.Skills, path.Join(at.State, "skills"))
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
	if usesAppServer(t) {
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
	p.Files, p.Stdin = files, []byte(agent.PlainText(t.Prompt))
	return p, nil
}

func isImage(c agent.Content) bool { return strings.HasPrefix(c.Type, "image/") }

// buildConfig returns config.toml.
func buildConfig(t *agent.Turn, at agent.Environment, f agent.Features) ([]byte, error) {
	var effort string
	var search, server bool
	errs := []error{t.CheckFeatures(f), t.DecodeArgument("effort", &effort), t.DecodeArgument("search", &search), t.DecodeArgument("server", &server)}
	if usesAppServer(t) && t.Schema != nil {
		errs = append(errs, fmt.Errorf("%w: a JSON schema for the answer, through the app server", atoll.ErrUnsupported))
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
	if !usesAppServer(t) { // else it is a parameter of the thread
		b.set("approval_policy", "never")
	}
	b.set("sandbox_mode", "danger-full-access") // atoll's sandbox is the limit
	trust := "trusted"
	if !t.Trust {
		trust = "untrusted"
		b.set("project_doc_max_bytes", 0)
	}
	b.setProvider(at)
	b.addTable("analytics")
	b.set("enabled", false)
	b.addTable("projects." + quoteTOML(at.Dir))
	b.set("trust_level", trust)
	if len(at.Tools) > 0 {
		b.addTable("mcp_servers.atoll")
		b.set("command", at.Tools[0])
		b.set("args", at.Tools[1:])
		b.set("tool_timeout_sec", 3600)
	}
	return []byte(b.String()), nil
}

// modelOf returns the name of the model. With its own default, Codex offers tools in
// a format that only that model and similar ones know.
func modelOf(t *agent.Turn, at agent.Environment) string {
	if t.Model == "" && at.Model != "" {
		return "gpt-5-codex"
	}
	return t.Model
}

// setProvider writes the model endpoint.
func (b *toml) setProvider(at agent.Environment) {
	if at.Model == "" {
		return
	}
	b.set("model_provider", "atoll")
	b.addTable("model_providers.atoll")
	b.set("name", "atoll")
	b.set("base_url", at.Model+"/v1")
	b.set("env_key", "ATOLL_MODEL_KEY")
	b.set("wire_api", "responses")
	b.set("request_max_retries", 3)
	b.set("stream_max_retries", 3)
}

// toml writes a TOML file.
type toml struct{ strings.Builder }

func (b *toml) addTable(name string) { fmt.Fprintf(b, "\n[%s]\n", name) }

func (b *toml) set(key string, value any) {
	switch v := value.(type) {
	case string:
		fmt.Fprintf(b, "%s = %s\n", key, quoteTOML(v))
	case []string:
		list := make([]string, len(v))
		for i, s := range v {
			list[i] = quoteTOML(s)
		}
		fmt.Fprintf(b, "%s = [%s]\n", key, strings.Join(list, ", "))
	default:
		fmt.Fprintf(b, "%s = %v\n", key, v)
	}
}

// quoteTOML returns a string as JSON, which TOML can read except for one character.
func quoteTOML(s string) string {
	q, _ := json.Marshal(s) // can't fail for a string
	return strings.ReplaceAll(string(q), "\x7f", `\u007f`)
}
