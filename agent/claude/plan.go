package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// maxSchema is the longest schema in bytes; the schema is an argument of the command.
const maxSchema = 64 << 10

// Plan runs the program with the turn's options in files and flags. The prompt is
// sent over its standard input.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	o, err := a.checkTurn(t)
	if err != nil {
		return nil, fmt.Errorf("agent claude: %w", err)
	}
	files, err := agent.SkillFiles(t.Skills, path.Join(at.State, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent claude: %w", err)
	}
	l := &planBuilder{turn: t, site: at, options: o, files: files, args: slices.Clone(t.Command)}
	if len(l.args) == 0 {
		l.args = []string{"claude"}
	}
	l.addFlag("-p")
	l.addFlag("--input-format", "stream-json")
	l.addFlag("--output-format", "stream-json")
	l.addFlag("--verbose") // stream-json output requires it
	l.addFlag("--include-partial-messages")
	l.addFlag("--forward-subagent-text") // without it, text of subagents is missing
	l.addConfigSources()
	l.addPermissionFlags()
	l.addModelFlags()
	l.addSessionFlags()
	return &agent.Plan{Files: l.files, Args: l.args, Env: l.buildEnv()}, nil
}

// checkTurn decodes and checks the options of a turn.
func (a Agent) checkTurn(t *agent.Turn) (*options, error) {
	o, err := readOptions(t)
	errs := []error{t.CheckFeatures(a.Features()), err}
	if len(t.Schema) > maxSchema {
		errs = append(errs, fmt.Errorf("%w: a schema of %d bytes: the limit is %d", atoll.ErrInvalid, len(t.Schema), maxSchema))
	}
	if t.Schema != nil && !json.Valid(t.Schema) {
		errs = append(errs, fmt.Errorf("%w: the schema is not JSON", atoll.ErrInvalid))
	}
	if t.MaxTurns < 0 {
		errs = append(errs, fmt.Errorf("%w: max_turns %d", atoll.ErrInvalid, t.MaxTurns))
	}
	return o, errors.Join(errs...)
}

// planBuilder collects the parts of a plan.
type planBuilder struct {
	turn    *agent.Turn
	site    agent.Environment
	options *options
	files   []agent.File
	args    []string
}

// addFlag adds a flag. A flag that accepts several values must have them in the
// name, after "=": it would also consume the arguments that follow it.
func (l *planBuilder) addFlag(name string, value ...string) {
	l.args = append(append(l.args, name), value...)
}

// addFile adds a file to the agent's state directory and returns its path.
func (l *planBuilder) addFile(name string, data []byte) string {
	file := path.Join(l.site.State, name)
	l.files = append(l.files, agent.File{Path: file, Data: data, Mode: 0o600})
	return file
}

// addConfigSources selects the settings and MCP servers that apply. Settings on
// the command line override those of a project, so even a trusted project can't
// redirect the agent to another model.
func (l *planBuilder) addConfigSources() {
	sources := "user"
	if l.turn.Trust {
		sources += ",project"
	} else {
		l.addFlag("--strict-mcp-config")
	}
	l.addFlag("--setting-sources", sources)
	l.addFlag("--settings", l.addFile("settings.json", l.buildSettings()))
	if l.site.Tools == nil {
		return
	}
	config := map[string]any{"mcpServers": map[string]any{
		serverName: map[string]any{"type": "stdio", "command": l.site.Tools[0], "args": l.site.Tools[1:]},
	}}
	l.addFlag("--mcp-config=" + l.addFile("mcp.json", encodeFile(config)))
}

// buildSettings returns the user settings. They replace those of earlier turns,
// which the agent could have written itself.
func (l *planBuilder) buildSettings() []byte {
	env := map[string]string{}
	if l.site.Model != "" {
		env["ANTHROPIC_BASE_URL"] = l.site.Model
		env["ANTHROPIC_API_KEY"] = placeholderKey
		env["NO_PROXY"], env["no_proxy"] = localHosts, localHosts // a project's proxy must not intercept the model endpoint
	}
	return encodeFile(map[string]any{"env": env})
}

// addPermissionFlags sets the permission mode, the permission prompt and the tools.
func (l *planBuilder) addPermissionFlags() {
	o := l.options
	mode := o.Mode
	switch {
	case mode != "":
	case l.turn.Ask:
		mode = "manual"
	default:
		mode = "bypassPermissions"
	}
	if l.turn.Ask {
		l.addFlag("--permission-prompt-tool", "stdio")
	}
	l.addFlag("--permission-mode", mode)
	if len(o.Tools) > 0 {
		l.addFlag("--tools=" + strings.Join(o.Tools, ","))
	}
	if allowed := append(slices.Clone(o.Allowed), l.preapprovedTools(mode)...); len(allowed) > 0 {
		l.addFlag("--allowedTools=" + strings.Join(allowed, ","))
	}
	if len(o.Disallowed) > 0 {
		l.addFlag("--disallowedTools=" + strings.Join(o.Disallowed, ","))
	}
}

// preapprovedTools returns the host's tools and the turn's skills where no
// permission is requested: they are offered to be used in every mode except plan.
func (l *planBuilder) preapprovedTools(mode string) []string {
	if l.turn.Ask || mode == "bypassPermissions" || mode == "plan" {
		return nil
	}
	var list []string
	if l.site.Tools != nil {
		list = append(list, "mcp__"+serverName)
	}
	for _, s := range l.turn.Skills {
		if !strings.ContainsAny(s.Name, "(),") { // they are syntax in the list
			list = append(list, "Skill("+s.Name+")")
		}
	}
	return list
}

// addModelFlags sets the models, limits and system prompts.
func (l *planBuilder) addModelFlags() {
	o := l.options
	if l.turn.Model != "" {
		l.addFlag("--model=" + l.turn.Model)
	}
	if o.Fallback != "" {
		l.addFlag("--fallback-model=" + o.Fallback)
	}
	if o.Effort != "" {
		l.addFlag("--effort", o.Effort)
	}
	turns := l.turn.MaxTurns
	if turns == 0 || o.MaxTurns > 0 && o.MaxTurns < turns {
		turns = o.MaxTurns
	}
	if turns > 0 {
		l.addFlag("--max-turns", strconv.Itoa(turns))
	}
	if o.MaxCost > 0 {
		l.addFlag("--max-budget-usd", strconv.FormatFloat(o.MaxCost, 'f', -1, 64))
	}
	if l.turn.Schema != nil {
		l.addFlag("--json-schema=" + string(l.turn.Schema))
	}
	if o.System != "" {
		l.addFlag("--system-prompt-file", l.addFile("system.md", []byte(o.System)))
	}
	if l.turn.System != "" {
		l.addFlag("--append-system-prompt-file", l.addFile("append.md", []byte(l.turn.System)))
	}
}

// addSessionFlags resumes a session. By default the program would use the system
// prompt that the session began with; the flag makes it use this turn's.
func (l *planBuilder) addSessionFlags() {
	if l.turn.Session == "" {
		return
	}
	l.addFlag("--resume=" + l.turn.Session)
	if l.turn.System != "" || l.options.System != "" {
		l.addFlag("--system-prompt-snapshot", "off")
	}
}

// localHosts are the hosts of the model endpoint, in the format of NO_PROXY.
const localHosts = "127.0.0.1,localhost,::1"

// placeholderKey is the agent's API key; the host's model endpoint adds the real one.
const placeholderKey = "none"

// buildEnv disables unneeded network traffic and sets the state directory, the
// model endpoint and limits.
func (l *planBuilder) buildEnv() []string {
	env := []string{
		"CLAUDE_CONFIG_DIR=" + l.site.State,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_MAX_RETRIES=3", // the default of 10 takes minutes
		"API_TIMEOUT_MS=600000",
		"ENABLE_TOOL_SEARCH=false", // sends the host's tools with every request
	}
	if l.site.Model != "" {
		env = append(env, "ANTHROPIC_BASE_URL="+l.site.Model, "ANTHROPIC_API_KEY="+placeholderKey)
	}
	if l.site.Root {
		env = append(env, "IS_SANDBOX=1")
	}
	if n := l.options.MaxOutput; n > 0 {
		env = append(env, "CLAUDE_CODE_MAX_OUTPUT_TOKENS="+strconv.Itoa(n))
	}
	if n := l.options.MaxThinking; n != nil {
		env = append(env, "MAX_THINKING_TOKENS="+strconv.Itoa(*n))
	}
	if b := l.options.Background; b != nil && !*b {
		env = append(env, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1")
	}
	return append(env, l.turn.Env...)
}

// encodeFile returns v as indented JSON.
func encodeFile(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // only maps, strings and slices of them
	}
	return append(b, '\n')
}
