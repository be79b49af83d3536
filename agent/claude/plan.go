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

// maxSchema bounds a schema, which is an argument of the command, in bytes.
const maxSchema = 64 << 10

// Plan runs the program with what a turn says in files and flags. The prompt is
// said over its standard input.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	o, err := a.options(t)
	if err != nil {
		return nil, fmt.Errorf("agent claude: %w", err)
	}
	files, err := agent.Place(t.Skills, path.Join(at.State, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent claude: %w", err)
	}
	l := &launch{turn: t, site: at, options: o, files: files, args: slices.Clone(t.Command)}
	if len(l.args) == 0 {
		l.args = []string{"claude"}
	}
	l.flag("-p")
	l.flag("--input-format", "stream-json")
	l.flag("--output-format", "stream-json")
	l.flag("--verbose") // without it the program refuses to tell what it does
	l.flag("--include-partial-messages")
	l.flag("--forward-subagent-text") // else what subagents say is not told
	l.sources()
	l.permissions()
	l.model()
	l.session()
	return &agent.Plan{Files: l.files, Args: l.args, Env: l.environment()}, nil
}

// options reads and checks a turn.
func (a Agent) options(t *agent.Turn) (*options, error) {
	o, err := read(t)
	errs := []error{t.Check(a.Features()), err}
	if len(t.Schema) > maxSchema {
		errs = append(errs, fmt.Errorf("%w: a schema of %d bytes; %d are the most", atoll.ErrInvalid, len(t.Schema), maxSchema))
	}
	if t.Schema != nil && !json.Valid(t.Schema) {
		errs = append(errs, fmt.Errorf("%w: the schema is not JSON", atoll.ErrInvalid))
	}
	if t.MaxTurns < 0 {
		errs = append(errs, fmt.Errorf("%w: max_turns %d", atoll.ErrInvalid, t.MaxTurns))
	}
	return o, errors.Join(errs...)
}

// launch is a plan in the making.
type launch struct {
	turn    *agent.Turn
	site    agent.Site
	options *options
	files   []agent.File
	args    []string
}

// flag adds a flag. One that takes several values gets them with "=", as it
// would take whatever follows it else.
func (l *launch) flag(name string, value ...string) {
	l.args = append(append(l.args, name), value...)
}

// place adds a file to the agent's own directory and returns its path.
func (l *launch) place(name string, data []byte) string {
	file := path.Join(l.site.State, name)
	l.files = append(l.files, agent.File{Path: file, Data: data, Mode: 0o600})
	return file
}

// sources says whose settings and tools count. The settings of the command
// line stand above those of a project, so that not even a trusted one leads the
// agent to another model.
func (l *launch) sources() {
	sources := "user"
	if l.turn.Trust {
		sources += ",project"
	} else {
		l.flag("--strict-mcp-config")
	}
	l.flag("--setting-sources", sources)
	l.flag("--settings", l.place("settings.json", l.settings()))
	if l.site.Tools == nil {
		return
	}
	config := map[string]any{"mcpServers": map[string]any{
		server: map[string]any{"type": "stdio", "command": l.site.Tools[0], "args": l.site.Tools[1:]},
	}}
	l.flag("--mcp-config=" + l.place("mcp.json", document(config)))
}

// settings are the user's: those of turns before, which the agent could have
// written itself, are replaced.
func (l *launch) settings() []byte {
	env := map[string]string{}
	if l.site.Model != "" {
		env["ANTHROPIC_BASE_URL"] = l.site.Model
		env["ANTHROPIC_API_KEY"] = key
		env["NO_PROXY"], env["no_proxy"] = near, near // no proxy of a project stands between
	}
	return document(map[string]any{"env": env})
}

// permissions says what the agent may do, and who is asked.
func (l *launch) permissions() {
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
		l.flag("--permission-prompt-tool", "stdio")
	}
	l.flag("--permission-mode", mode)
	if len(o.Tools) > 0 {
		l.flag("--tools=" + strings.Join(o.Tools, ","))
	}
	if allowed := append(slices.Clone(o.Allowed), l.offered(mode)...); len(allowed) > 0 {
		l.flag("--allowedTools=" + strings.Join(allowed, ","))
	}
	if len(o.Disallowed) > 0 {
		l.flag("--disallowedTools=" + strings.Join(o.Disallowed, ","))
	}
}

// offered are the host's tools and the turn's skills. They are offered to be
// used, so where nobody is asked no mode but that of planning keeps them away.
func (l *launch) offered(mode string) []string {
	if l.turn.Ask || mode == "bypassPermissions" || mode == "plan" {
		return nil
	}
	var list []string
	if l.site.Tools != nil {
		list = append(list, "mcp__"+server)
	}
	for _, s := range l.turn.Skills {
		if !strings.ContainsAny(s.Name, "(),") { // which have a meaning there
			list = append(list, "Skill("+s.Name+")")
		}
	}
	return list
}

// model says which model is asked for what, and for how long.
func (l *launch) model() {
	o := l.options
	if l.turn.Model != "" {
		l.flag("--model=" + l.turn.Model)
	}
	if o.Fallback != "" {
		l.flag("--fallback-model=" + o.Fallback)
	}
	if o.Effort != "" {
		l.flag("--effort", o.Effort)
	}
	turns := l.turn.MaxTurns
	if turns == 0 || o.MaxTurns > 0 && o.MaxTurns < turns {
		turns = o.MaxTurns
	}
	if turns > 0 {
		l.flag("--max-turns", strconv.Itoa(turns))
	}
	if o.MaxCost > 0 {
		l.flag("--max-budget-usd", strconv.FormatFloat(o.MaxCost, 'f', -1, 64))
	}
	if l.turn.Schema != nil {
		l.flag("--json-schema=" + string(l.turn.Schema))
	}
	if o.System != "" {
		l.flag("--system-prompt-file", l.place("system.md", []byte(o.System)))
	}
	if l.turn.System != "" {
		l.flag("--append-system-prompt-file", l.place("append.md", []byte(l.turn.System)))
	}
}

// session goes on with a session. The program would send the system prompt
// that the session began with; what this turn says is what counts.
func (l *launch) session() {
	if l.turn.Session == "" {
		return
	}
	l.flag("--resume=" + l.turn.Session)
	if l.turn.System != "" || l.options.System != "" {
		l.flag("--system-prompt-snapshot", "off")
	}
}

// near are the hosts of the model endpoint, as variables for proxies name them.
const near = "127.0.0.1,localhost,::1"

// key stands for the key that the model endpoint of the host adds.
const key = "none"

// environment keeps the program quiet, and its own directory where it is.
func (l *launch) environment() []string {
	env := []string{
		"CLAUDE_CONFIG_DIR=" + l.site.State,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_MAX_RETRIES=3", // its own 10 take minutes
		"API_TIMEOUT_MS=600000",
		"ENABLE_TOOL_SEARCH=false", // the host's tools are in every request, not behind a search
	}
	if l.site.Model != "" {
		env = append(env, "ANTHROPIC_BASE_URL="+l.site.Model, "ANTHROPIC_API_KEY="+key)
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

// document returns v as a file of JSON.
func document(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // only maps, strings and slices of them
	}
	return append(b, '\n')
}
