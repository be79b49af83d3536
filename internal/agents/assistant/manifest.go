package assistant

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// manifest decodes package.yao or atoll.yaml.
type manifest struct {
	fieldReader

	opts      *LoadOptions
	a         *Assistant
	skills    []string            // names of the app's skills
	positions map[string]fieldPos // by field of atoll.Config
}

// fieldPos is the position of a field.
type fieldPos struct {
	n  *node
	at string
}

func (m *manifest) readManifest(n *node) {
	connector, mcp, skills := fieldPos{}, fieldPos{}, fieldPos{}
	m.readFields(n, "", map[string]valueReader{
		"name":        m.textInto(&m.a.Name),
		"description": m.textInto(&m.a.Description),
		"connector": func(n *node, at string) {
			connector = fieldPos{n, at}
			m.textInto(&m.a.Connector)(n, at)
			m.a.Connector = strings.ReplaceAll(m.a.Connector, "/", ".") // accept the file's path
		},
		"model":     m.textInto(&m.a.Options.Model),
		"options":   m.readOptions,
		"sandbox":   m.readSandbox,
		"mcp":       func(n *node, at string) { mcp = fieldPos{n, at}; m.readMCP(n, at) },
		"skills":    func(n *node, at string) { skills = fieldPos{n, at}; m.textsInto(&m.skills)(n, at) },
		"workspace": m.readWorkspace,
		"budget":    m.readBudget,
		"hooks":     m.readHookLimits,

		// Fields that only describe an assistant and are ignored here.
		"type": nil, "avatar": nil, "tags": nil, "sort": nil, "readonly": nil, "public": nil, "share": nil,
		"mentionable": nil, "automated": nil, "placeholder": nil, "locales": nil,
	})
	if connector.n != nil {
		m.checkKnown(connector, m.a.Connector, "connector", m.opts.Connectors)
	}
	if mcp.n == nil {
		for _, id := range m.a.Servers.Names() {
			m.a.Tools = append(m.a.Tools, ServerTools{Server: id})
		}
	}
	m.addAppSkills(skills)
}

// checkKnown checks that a name is among all; a nil all is not checked.
func (m *manifest) checkKnown(p fieldPos, name, what string, all any) bool {
	var names []string
	switch all := all.(type) {
	case map[string]model.Connector:
		if all == nil {
			return true
		}
		names = slices.Sorted(maps.Keys(all))
	case map[string]agent.Agent:
		if all == nil {
			return true
		}
		names = slices.Sorted(maps.Keys(all))
	case []string:
		names = all
	}
	if name == "" || slices.Contains(names, name) {
		return true
	}
	there := "there is none"
	if len(names) > 0 {
		there = "there is: " + strings.Join(names, ", ")
	}
	m.addProblem(p.n, p.at, "there is no %s %q%s; %s", what, truncateName(name), suggest.Hint(name, names), there)
	return false
}

func (m *manifest) readOptions(n *node, at string) {
	o := &m.a.Options
	m.readFields(n, at, map[string]valueReader{
		"model":            m.textInto(&o.Model),
		"temperature":      m.nonNegativeInto(&o.Temperature),
		"top_p":            m.nonNegativeInto(&o.TopP),
		"max_tokens":       countInto(&m.fieldReader, &o.MaxTokens),
		"stop":             m.readStop,
		"reasoning_effort": m.textInto(&o.Effort),
		"thinking":         countInto(&m.fieldReader, &o.ThinkTokens),
		"schema":           m.schemaInto(&o.Schema),
	})
}

func (m *manifest) readStop(n *node, at string) {
	if n.kind == aText {
		m.a.Options.Stop = []string{n.text}
		return
	}
	m.textsInto(&m.a.Options.Stop)(n, at)
}

// readSandbox decodes the name of an agent, or an object.
func (m *manifest) readSandbox(n *node, at string) {
	s := &Sandbox{}
	m.a.Sandbox = s
	m.positions = make(map[string]fieldPos)
	c := &s.Config
	command, arguments := fieldPos{}, fieldPos{}
	if n.kind == aText {
		s.Command, command = n.text, fieldPos{n, at}
	} else {
		m.readFields(n, at, map[string]valueReader{
			"command":     func(n *node, at string) { command = fieldPos{n, at}; m.textInto(&s.Command)(n, at) },
			"program":     m.readProgram,
			"driver":      m.trackPosition("driver", m.textInto(&c.Driver)),
			"image":       m.trackPosition("image", m.textInto(&c.Image)),
			"runtime":     m.trackPosition("runtime", m.textInto(&c.Runtime)),
			"user":        m.trackPosition("user", m.textInto(&c.User)),
			"dir":         m.trackPosition("dir", m.textInto(&c.Dir)),
			"max_memory":  m.trackPosition("limits.memory", m.sizeInto(&c.Limits.Memory)),
			"max_cpu":     m.trackPosition("limits.cpu", m.positiveInto(&c.Limits.CPU)),
			"max_disk":    m.trackPosition("limits.disk", m.sizeInto(&c.Limits.Disk)),
			"max_pids":    m.trackPosition("limits.pids", countInto(&m.fieldReader, &c.Limits.PIDs)),
			"timeout":     m.durationInto(&s.Timeout),
			"idle":        m.durationInto(&s.Idle),
			"max_turns":   countInto(&m.fieldReader, &s.MaxTurns),
			"arguments":   func(n *node, at string) { arguments = fieldPos{n, at}; m.readArguments(n, at) },
			"network":     m.trackPosition("network", m.readNetwork),
			"environment": m.trackPosition("env", m.variablesInto(func(k, v string) { c.Env = append(c.Env, k+"="+v) })),
			"secrets":     m.trackPosition("secrets", m.variablesInto(m.addSecret)),
			"prepare":     m.trackPosition("prepare", m.eachElement(m.readStep)),
			"ask":         m.flagInto(&s.Ask),
			"approvals":   m.flagInto(&s.Ask),
			"trust":       m.flagInto(&s.Trust),
			"system":      m.textInto(&s.System),
		})
	}
	m.checkConfig(fieldPos{n, at})
	m.checkAgent(fieldPos{n, at}, command, arguments)
}

// trackPosition returns a reader that records the position of a configuration's field.
func (m *manifest) trackPosition(field string, f valueReader) valueReader {
	return func(n *node, at string) {
		m.positions[field] = fieldPos{n, at}
		f(n, at)
	}
}

func (m *manifest) readProgram(n *node, at string) {
	m.textsInto(&m.a.Sandbox.Program)(n, at)
	if n.kind == aList && len(n.list) == 0 {
		m.addProblem(n, at, "must name a program")
	}
}

func (m *manifest) addSecret(k, v string) {
	c := &m.a.Sandbox.Config
	if c.Secrets == nil {
		c.Secrets = make(map[string]string)
	}
	c.Secrets[k] = v
}

func (m *manifest) readArguments(n *node, at string) {
	if !m.checkKind(n, at, anObject) {
		return
	}
	s := m.a.Sandbox
	s.Arguments = make(map[string]any)
	seen := make(map[string]bool)
	for _, f := range n.fields {
		if seen[f.name] {
			m.addProblem(&node{line: f.line, column: f.column}, joinPath(at, f.name), "is there already")
		}
		seen[f.name] = true
		s.Arguments[f.name] = f.value.toPlain()
		if f.name == "max_turns" {
			countInto(&m.fieldReader, &s.MaxTurns)(f.value, joinPath(at, f.name))
		}
	}
}

// readNetwork decodes a mode, a list of hosts, or an object.
func (m *manifest) readNetwork(n *node, at string) {
	net := &m.a.Sandbox.Config.Network
	mode := func(n *node, at string) {
		var s string
		m.wordInto(&s, string(atoll.NetworkNone), string(atoll.NetworkNAT), string(atoll.NetworkBridge), string(atoll.NetworkOpen))(n, at)
		net.Mode = atoll.NetworkMode(s)
	}
	switch n.kind {
	case aText:
		mode(n, at)
	case aList:
		m.textsInto(&net.Allow)(n, at)
	default:
		m.readFields(n, at, map[string]valueReader{
			"mode":    mode,
			"allow":   m.trackPosition("network.allow", m.textsInto(&net.Allow)),
			"deny":    m.trackPosition("network.deny", m.textsInto(&net.Deny)),
			"inspect": m.flagInto(&net.Inspect),
			"rate":    m.sizeInto(&net.Rate),
			"bytes":   m.sizeInto(&net.Bytes),
		})
	}
}

func (m *manifest) readStep(n *node, at string) {
	var s atoll.Step
	var mode string
	m.readFields(n, at, map[string]valueReader{
		"name":  m.textInto(&s.Name),
		"exec":  m.textsInto(&s.Exec),
		"shell": m.textInto(&s.Shell),
		"file": func(n *node, at string) {
			s.File = &atoll.StepFile{}
			m.readFields(n, at, map[string]valueReader{
				"path": m.textInto(&s.File.Path), "content": m.textInto(&s.File.Content),
				"mode": func(n *node, at string) { mode = n.text; s.File.Mode = m.parseMode(n, at, mode) },
			})
		},
		"copy": func(n *node, at string) {
			s.Copy = &atoll.StepCopy{}
			m.readFields(n, at, map[string]valueReader{"workspace": m.textInto(&s.Copy.Workspace), "from": m.textInto(&s.Copy.From), "to": m.textInto(&s.Copy.To)})
		},
		"once":         m.flagInto(&s.Once),
		"ignore_error": m.flagInto(&s.IgnoreError),
		"timeout":      m.durationInto(&s.Timeout),
	})
	c := &m.a.Sandbox.Config
	m.positions[fmt.Sprintf("prepare[%d]", len(c.Prepare))] = fieldPos{n, at}
	c.Prepare = append(c.Prepare, s)
}

func (m *manifest) parseMode(n *node, at, text string) uint32 {
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || bits > 0o777 {
		m.addProblem(n, at, "must be permission bits like \"0755\"%s", describeValue(n))
	}
	return uint32(bits & 0o777)
}

// checkConfig reports the problems of the sandbox's configuration at their fields.
func (m *manifest) checkConfig(whole fieldPos) {
	err := m.a.Sandbox.Config.Check()
	for _, e := range splitErrors(err) {
		p := whole
		var f *atoll.FieldError
		if errors.As(e, &f) {
			p = m.positionOf(f.Field, whole)
		}
		m.addProblem(p.n, p.at, "%v", e)
	}
}

// positionOf returns the position of a field of the configuration, or of the closest
// parent that is in the file.
func (m *manifest) positionOf(field string, whole fieldPos) fieldPos {
	for field != "" {
		if p, ok := m.positions[field]; ok {
			return p
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return whole
}

// splitErrors returns the single errors of a joined one.
func splitErrors(err error) []error {
	var f *atoll.FieldError
	if err == nil || errors.As(err, &f) && err == error(f) { //nolint:errorlint // it is the error itself that is asked for
		if err == nil {
			return nil
		}
		return []error{err}
	}
	u, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // as above
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range u.Unwrap() {
		if e != atoll.ErrInvalid { //nolint:errorlint // the sentinel is no problem of its own
			list = append(list, splitErrors(e)...)
		}
	}
	return list
}

// checkAgent checks the agent and its arguments.
func (m *manifest) checkAgent(whole, command, arguments fieldPos) {
	s := m.a.Sandbox
	if command.n == nil || s.Command == "" {
		if len(s.Arguments) > 0 || len(s.Program) > 0 {
			m.addProblem(whole.n, joinPath(whole.at, "command"), "is missing: the agent that arguments and program are for")
		}
		return
	}
	if !m.checkKnown(command, s.Command, "agent", m.opts.Agents) {
		return
	}
	a := m.opts.Agents[s.Command]
	if a == nil {
		return
	}
	known := a.Features().Arguments
	names := slices.Sorted(maps.Keys(known))
	wrong := len(m.problems)
	if arguments.n != nil {
		for _, f := range arguments.n.fields {
			if _, ok := known[f.name]; ok {
				continue
			}
			if f.name == "max_turns" {
				delete(s.Arguments, f.name) // a field of every turn, for all agents
				continue
			}
			there := "it has none"
			if len(names) > 0 {
				there = "it has: " + strings.Join(names, ", ")
			}
			m.addProblem(&node{line: f.line, column: f.column}, joinPath(arguments.at, f.name), "agent %s has no such argument%s; %s", s.Command, suggest.Hint(f.name, names), there)
		}
	}
	if len(m.problems) == wrong {
		m.tryPlan(a, whole, arguments)
	}
}

// tryPlan checks the arguments by planning a turn.
func (m *manifest) tryPlan(a agent.Agent, whole, arguments fieldPos) {
	s := m.a.Sandbox
	p := whole
	if arguments.n != nil {
		p = arguments
	}
	site := agent.Environment{Dir: atoll.DefaultDir, State: "/var/lib/agents/" + a.Name(), Model: "http://127.0.0.1:9"}
	turn := &agent.Turn{
		ID: "check", Prompt: agent.Text("check"), Ask: s.Ask, Trust: s.Trust, System: s.System,
		MaxTurns: s.MaxTurns, Arguments: s.Arguments, Command: s.Program,
	}
	if _, err := a.Plan(turn, site); err != nil {
		for _, e := range splitErrors(err) {
			m.addProblem(p.n, p.at, "agent %s: %v", s.Command, e)
		}
	}
}

func (m *manifest) readMCP(n *node, at string) {
	m.readFields(n, at, map[string]valueReader{"servers": m.eachElement(m.readServer)})
}

// readServer decodes the id of a server, or an object.
func (m *manifest) readServer(n *node, at string) {
	var s ServerTools
	id, tools := fieldPos{n, at}, fieldPos{}
	if n.kind == aText {
		s.Server = n.text
	} else {
		m.readFields(n, at, map[string]valueReader{
			"server_id": func(n *node, at string) { id = fieldPos{n, at}; m.textInto(&s.Server)(n, at) },
			"tools":     func(n *node, at string) { tools = fieldPos{n, at}; s.Tools = []string{}; m.textsInto(&s.Tools)(n, at) },
			"resources": nil,
			"prompts":   nil,
		})
	}
	if s.Server == "" {
		if n.kind == anObject {
			m.addProblem(n, joinPath(at, "server_id"), "is missing")
		}
		return
	}
	m.a.Tools = append(m.a.Tools, s)
	there := append(m.a.Servers.Names(), m.opts.Servers.Names()...)
	if m.opts.Servers == nil && !m.a.Servers.Has(s.Server) {
		return // the servers are unknown
	}
	slices.Sort(there)
	if m.checkKnown(id, s.Server, "server", slices.Compact(there)) && tools.n != nil {
		m.checkServerTools(s, tools)
	}
}

// checkServerTools checks that a server has the named tools.
func (m *manifest) checkServerTools(s ServerTools, p fieldPos) {
	from := m.a.Servers
	if !from.Has(s.Server) {
		from = m.opts.Servers
	}
	names, known := from.ToolNames(s.Server)
	if !known {
		return // checked when the server is connected
	}
	slices.Sort(names)
	for i, name := range s.Tools {
		if slices.Contains(names, name) || i >= len(p.n.list) {
			continue
		}
		m.checkKnown(fieldPos{p.n.list[i], fmt.Sprintf("%s[%d]", p.at, i)}, name, "tool", names)
	}
}

// addAppSkills adds the named skills of the app.
func (m *manifest) addAppSkills(p fieldPos) {
	if p.n == nil || m.opts.Skills == nil {
		return
	}
	names := make([]string, 0, len(m.opts.Skills))
	for _, s := range m.opts.Skills {
		names = append(names, s.Name)
	}
	for i, name := range m.skills {
		if i >= len(p.n.list) || !m.checkKnown(fieldPos{p.n.list[i], fmt.Sprintf("%s[%d]", p.at, i)}, name, "skill", names) {
			continue
		}
		for _, s := range m.opts.Skills {
			if s.Name == name {
				m.a.Skills = append(m.a.Skills, s)
			}
		}
	}
}

// readWorkspace decodes a policy, or an object.
func (m *manifest) readWorkspace(n *node, at string) {
	w := &m.a.Workspace
	policy := m.wordInto(&w.Policy, "chat", "user", "assistant", "none", "name")
	name := fieldPos{n, joinPath(at, "name")}
	if n.kind == aText {
		policy(n, at)
	} else {
		m.readFields(n, at, map[string]valueReader{
			"policy": policy,
			"name":   func(n *node, at string) { name = fieldPos{n, at}; m.textInto(&w.Name)(n, at) },
			"keep":   m.durationInto(&w.Keep),
		})
	}
	if w.Name != "" && w.Policy == "" {
		w.Policy = "name"
	}
	switch {
	case (w.Policy == "name") != (w.Name != ""):
		m.addProblem(name.n, name.at, "goes with the policy \"name\", and only with it")
	case w.Name != "":
		if err := atoll.CheckName(w.Name); err != nil {
			m.addProblem(name.n, name.at, "%v", errors.Unwrap(err))
		}
	}
}

func (m *manifest) readBudget(n *node, at string) {
	of := func(b *model.Budget) valueReader {
		return func(n *node, at string) {
			m.readFields(n, at, map[string]valueReader{
				"requests": countInto(&m.fieldReader, &b.Requests),
				"input":    countInto(&m.fieldReader, &b.Input),
				"output":   countInto(&m.fieldReader, &b.Output),
				"tokens":   countInto(&m.fieldReader, &b.Tokens),
				"cost":     m.positiveInto(&b.Cost),
				"time":     m.durationInto(&b.Time),
			})
		}
	}
	b := &m.a.Budget
	m.readFields(n, at, map[string]valueReader{"turn": of(&b.Turn), "chat": of(&b.Chat), "owner": of(&b.Owner), "assistant": of(&b.Assistant)})
}

func (m *manifest) readHookLimits(n *node, at string) {
	l := &m.a.HookLimits
	m.readFields(n, at, map[string]valueReader{"memory": m.sizeInto(&l.Memory), "time": m.durationInto(&l.Time), "total": m.durationInto(&l.Total)})
}
