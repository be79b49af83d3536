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
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// manifest reads package.yao or atoll.yaml.
type manifest struct {
	reader

	opts   *LoadOptions
	a      *Assistant
	skills []string // of the app's

	places map[string]place // by field of atoll.Config
}

// place is where something was said.
type place struct {
	n  *node
	at string
}

func (m *manifest) read(n *node) {
	connector, mcp, skills := place{}, place{}, place{}
	m.fields(n, "", map[string]read{
		"name":        m.text(&m.a.Name),
		"description": m.text(&m.a.Description),
		"connector": func(n *node, at string) {
			connector = place{n, at}
			m.text(&m.a.Connector)(n, at)
			m.a.Connector = strings.ReplaceAll(m.a.Connector, "/", ".") // people write it as its file, too
		},
		"model":     m.text(&m.a.Options.Model),
		"options":   m.options,
		"sandbox":   m.sandbox,
		"mcp":       func(n *node, at string) { mcp = place{n, at}; m.mcp(n, at) },
		"skills":    func(n *node, at string) { skills = place{n, at}; m.texts(&m.skills)(n, at) },
		"workspace": m.workspace,
		"budget":    m.budget,
		"hooks":     m.hooks,

		// What only shows an assistant to people, and nothing here does.
		"type": nil, "avatar": nil, "tags": nil, "sort": nil, "readonly": nil, "public": nil, "share": nil,
		"mentionable": nil, "automated": nil, "placeholder": nil, "locales": nil,
	})
	if connector.n != nil {
		m.known(connector, m.a.Connector, "connector", m.opts.Connectors)
	}
	if mcp.n == nil {
		for _, id := range m.a.Servers.Names() {
			m.a.Tools = append(m.a.Tools, ServerTools{Server: id})
		}
	}
	m.takeSkills(skills)
}

// known checks that something is there, unless nobody knows what there is.
func (m *manifest) known(p place, name, what string, all any) bool {
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
	m.bad(p.n, p.at, "there is no %s %q%s; %s", what, short(name), spell.Hint(name, names), there)
	return false
}

func (m *manifest) options(n *node, at string) {
	o := &m.a.Options
	m.fields(n, at, map[string]read{
		"model":            m.text(&o.Model),
		"temperature":      m.fraction(&o.Temperature),
		"top_p":            m.fraction(&o.TopP),
		"max_tokens":       count(&m.reader, &o.MaxTokens),
		"stop":             m.stop,
		"reasoning_effort": m.text(&o.Effort),
		"thinking":         count(&m.reader, &o.Think),
		"schema":           m.schema(&o.Schema),
	})
}

func (m *manifest) stop(n *node, at string) {
	if n.kind == aText {
		m.a.Options.Stop = []string{n.text}
		return
	}
	m.texts(&m.a.Options.Stop)(n, at)
}

// sandbox is the name of an agent, or an object.
func (m *manifest) sandbox(n *node, at string) {
	s := &Sandbox{}
	m.a.Sandbox = s
	m.places = make(map[string]place)
	c := &s.Config
	command, arguments := place{}, place{}
	if n.kind == aText {
		s.Command, command = n.text, place{n, at}
	} else {
		m.fields(n, at, map[string]read{
			"command":     func(n *node, at string) { command = place{n, at}; m.text(&s.Command)(n, at) },
			"program":     m.program,
			"driver":      m.placed("driver", m.text(&c.Driver)),
			"image":       m.placed("image", m.text(&c.Image)),
			"runtime":     m.placed("runtime", m.text(&c.Runtime)),
			"user":        m.placed("user", m.text(&c.User)),
			"dir":         m.placed("dir", m.text(&c.Dir)),
			"max_memory":  m.placed("limits.memory", m.size(&c.Limits.Memory)),
			"max_cpu":     m.placed("limits.cpu", m.amount(&c.Limits.CPU)),
			"max_disk":    m.placed("limits.disk", m.size(&c.Limits.Disk)),
			"max_pids":    m.placed("limits.pids", count(&m.reader, &c.Limits.PIDs)),
			"timeout":     m.span(&s.Timeout),
			"idle":        m.span(&s.Idle),
			"max_turns":   count(&m.reader, &s.MaxTurns),
			"arguments":   func(n *node, at string) { arguments = place{n, at}; m.arguments(n, at) },
			"network":     m.placed("network", m.network),
			"environment": m.placed("env", m.named(func(k, v string) { c.Env = append(c.Env, k+"="+v) })),
			"secrets":     m.placed("secrets", m.named(m.secret)),
			"prepare":     m.placed("prepare", m.each(m.step)),
			"ask":         m.flag(&s.Ask),
			"approvals":   m.flag(&s.Ask),
			"trust":       m.flag(&s.Trust),
			"system":      m.text(&s.System),
		})
	}
	m.checkConfig(place{n, at})
	m.checkAgent(place{n, at}, command, arguments)
}

// placed remembers where a field of the configuration was said.
func (m *manifest) placed(field string, f read) read {
	return func(n *node, at string) {
		m.places[field] = place{n, at}
		f(n, at)
	}
}

func (m *manifest) program(n *node, at string) {
	m.texts(&m.a.Sandbox.Program)(n, at)
	if n.kind == aList && len(n.list) == 0 {
		m.bad(n, at, "must name a program")
	}
}

func (m *manifest) secret(k, v string) {
	c := &m.a.Sandbox.Config
	if c.Secrets == nil {
		c.Secrets = make(map[string]string)
	}
	c.Secrets[k] = v
}

func (m *manifest) arguments(n *node, at string) {
	if !m.want(n, at, anObject) {
		return
	}
	s := m.a.Sandbox
	s.Arguments = make(map[string]any)
	seen := make(map[string]bool)
	for _, f := range n.fields {
		if seen[f.name] {
			m.bad(&node{line: f.line, column: f.column}, joined(at, f.name), "is there already")
		}
		seen[f.name] = true
		s.Arguments[f.name] = f.value.plain()
		if f.name == "max_turns" {
			count(&m.reader, &s.MaxTurns)(f.value, joined(at, f.name))
		}
	}
}

// network is a mode, a list of hosts, or an object.
func (m *manifest) network(n *node, at string) {
	net := &m.a.Sandbox.Config.Network
	mode := func(n *node, at string) {
		var s string
		m.word(&s, string(atoll.NetworkNone), string(atoll.NetworkNAT), string(atoll.NetworkBridge), string(atoll.NetworkOpen))(n, at)
		net.Mode = atoll.NetworkMode(s)
	}
	switch n.kind {
	case aText:
		mode(n, at)
	case aList:
		m.texts(&net.Allow)(n, at)
	default:
		m.fields(n, at, map[string]read{
			"mode":    mode,
			"allow":   m.placed("network.allow", m.texts(&net.Allow)),
			"deny":    m.placed("network.deny", m.texts(&net.Deny)),
			"inspect": m.flag(&net.Inspect),
			"rate":    m.size(&net.Rate),
			"bytes":   m.size(&net.Bytes),
		})
	}
}

func (m *manifest) step(n *node, at string) {
	var s atoll.Step
	var mode string
	m.fields(n, at, map[string]read{
		"name":  m.text(&s.Name),
		"exec":  m.texts(&s.Exec),
		"shell": m.text(&s.Shell),
		"file": func(n *node, at string) {
			s.File = &atoll.StepFile{}
			m.fields(n, at, map[string]read{
				"path": m.text(&s.File.Path), "content": m.text(&s.File.Content),
				"mode": func(n *node, at string) { mode = n.text; s.File.Mode = m.octal(n, at, mode) },
			})
		},
		"copy": func(n *node, at string) {
			s.Copy = &atoll.StepCopy{}
			m.fields(n, at, map[string]read{"workspace": m.text(&s.Copy.Workspace), "from": m.text(&s.Copy.From), "to": m.text(&s.Copy.To)})
		},
		"once":         m.flag(&s.Once),
		"ignore_error": m.flag(&s.IgnoreError),
		"timeout":      m.span(&s.Timeout),
	})
	c := &m.a.Sandbox.Config
	m.places[fmt.Sprintf("prepare[%d]", len(c.Prepare))] = place{n, at}
	c.Prepare = append(c.Prepare, s)
}

func (m *manifest) octal(n *node, at, text string) uint32 {
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || bits > 0o777 {
		m.bad(n, at, "must be permission bits like \"0755\"%s", what(n))
	}
	return uint32(bits & 0o777)
}

// checkConfig tells what the configuration itself finds wrong, where it was said.
func (m *manifest) checkConfig(whole place) {
	err := m.a.Sandbox.Config.Check()
	for _, e := range leaves(err) {
		p := whole
		var f *atoll.FieldError
		if errors.As(e, &f) {
			p = m.placeOf(f.Field, whole)
		}
		m.bad(p.n, p.at, "%v", e)
	}
}

// placeOf returns where a field of the configuration, or what it is part of, was
// said.
func (m *manifest) placeOf(field string, whole place) place {
	for field != "" {
		if p, ok := m.places[field]; ok {
			return p
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return whole
}

// leaves returns the single errors of a joined one.
func leaves(err error) []error {
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
		if e != atoll.ErrInvalid { //nolint:errorlint // the mark is no problem of its own
			list = append(list, leaves(e)...)
		}
	}
	return list
}

// checkAgent checks the agent and what it is told.
func (m *manifest) checkAgent(whole, command, arguments place) {
	s := m.a.Sandbox
	if command.n == nil || s.Command == "" {
		if len(s.Arguments) > 0 || len(s.Program) > 0 {
			m.bad(whole.n, joined(whole.at, "command"), "is missing: the agent that arguments and program are for")
		}
		return
	}
	if !m.known(command, s.Command, "agent", m.opts.Agents) {
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
				delete(s.Arguments, f.name) // every turn has that, whatever the agent
				continue
			}
			there := "it takes none"
			if len(names) > 0 {
				there = "it takes: " + strings.Join(names, ", ")
			}
			m.bad(&node{line: f.line, column: f.column}, joined(arguments.at, f.name), "agent %s takes no such argument%s; %s", s.Command, spell.Hint(f.name, names), there)
		}
	}
	if len(m.problems) == wrong {
		m.tryPlan(a, whole, arguments)
	}
}

// tryPlan asks the agent whether it can do a turn with such arguments.
func (m *manifest) tryPlan(a agent.Agent, whole, arguments place) {
	s := m.a.Sandbox
	p := whole
	if arguments.n != nil {
		p = arguments
	}
	site := agent.Site{Dir: atoll.DefaultDir, State: "/var/lib/agents/" + a.Name(), Model: "http://127.0.0.1:9"}
	turn := &agent.Turn{
		ID: "check", Prompt: agent.Text("check"), Ask: s.Ask, Trust: s.Trust, System: s.System,
		MaxTurns: s.MaxTurns, Arguments: s.Arguments, Command: s.Program,
	}
	if _, err := a.Plan(turn, site); err != nil {
		for _, e := range leaves(err) {
			m.bad(p.n, p.at, "agent %s: %v", s.Command, e)
		}
	}
}

func (m *manifest) mcp(n *node, at string) {
	m.fields(n, at, map[string]read{"servers": m.each(m.server)})
}

// server is the id of a server, or an object.
func (m *manifest) server(n *node, at string) {
	var s ServerTools
	id, tools := place{n, at}, place{}
	if n.kind == aText {
		s.Server = n.text
	} else {
		m.fields(n, at, map[string]read{
			"server_id": func(n *node, at string) { id = place{n, at}; m.text(&s.Server)(n, at) },
			"tools":     func(n *node, at string) { tools = place{n, at}; s.Tools = []string{}; m.texts(&s.Tools)(n, at) },
			"resources": nil,
			"prompts":   nil,
		})
	}
	if s.Server == "" {
		if n.kind == anObject {
			m.bad(n, joined(at, "server_id"), "is missing")
		}
		return
	}
	m.a.Tools = append(m.a.Tools, s)
	there := append(m.a.Servers.Names(), m.opts.Servers.Names()...)
	if m.opts.Servers == nil && !m.a.Servers.Has(s.Server) {
		return // nobody knows
	}
	slices.Sort(there)
	if m.known(id, s.Server, "server", slices.Compact(there)) && tools.n != nil {
		m.serverTools(s, tools)
	}
}

// serverTools checks that a server has the tools that are named.
func (m *manifest) serverTools(s ServerTools, p place) {
	from := m.a.Servers
	if !from.Has(s.Server) {
		from = m.opts.Servers
	}
	names, known := from.Known(s.Server)
	if !known {
		return // it is told when the server is asked
	}
	slices.Sort(names)
	for i, name := range s.Tools {
		if slices.Contains(names, name) || i >= len(p.n.list) {
			continue
		}
		m.known(place{p.n.list[i], fmt.Sprintf("%s[%d]", p.at, i)}, name, "tool", names)
	}
}

// takeSkills adds those of the app's skills that are named.
func (m *manifest) takeSkills(p place) {
	if p.n == nil || m.opts.Skills == nil {
		return
	}
	names := make([]string, 0, len(m.opts.Skills))
	for _, s := range m.opts.Skills {
		names = append(names, s.Name)
	}
	for i, name := range m.skills {
		if i >= len(p.n.list) || !m.known(place{p.n.list[i], fmt.Sprintf("%s[%d]", p.at, i)}, name, "skill", names) {
			continue
		}
		for _, s := range m.opts.Skills {
			if s.Name == name {
				m.a.Skills = append(m.a.Skills, s)
			}
		}
	}
}

// workspace is a policy, or an object.
func (m *manifest) workspace(n *node, at string) {
	w := &m.a.Workspace
	policy := m.word(&w.Policy, "chat", "user", "assistant", "none", "name")
	name := place{n, joined(at, "name")}
	if n.kind == aText {
		policy(n, at)
	} else {
		m.fields(n, at, map[string]read{
			"policy": policy,
			"name":   func(n *node, at string) { name = place{n, at}; m.text(&w.Name)(n, at) },
			"keep":   m.span(&w.Keep),
		})
	}
	if w.Name != "" && w.Policy == "" {
		w.Policy = "name"
	}
	switch {
	case (w.Policy == "name") != (w.Name != ""):
		m.bad(name.n, name.at, "goes with the policy \"name\", and only with it")
	case w.Name != "":
		if err := atoll.CheckName(w.Name); err != nil {
			m.bad(name.n, name.at, "%v", errors.Unwrap(err))
		}
	}
}

func (m *manifest) budget(n *node, at string) {
	of := func(b *model.Budget) read {
		return func(n *node, at string) {
			m.fields(n, at, map[string]read{
				"requests": count(&m.reader, &b.Requests),
				"input":    count(&m.reader, &b.Input),
				"output":   count(&m.reader, &b.Output),
				"tokens":   count(&m.reader, &b.Tokens),
				"cost":     m.amount(&b.Cost),
				"time":     m.span(&b.Time),
			})
		}
	}
	b := &m.a.Budget
	m.fields(n, at, map[string]read{"turn": of(&b.Turn), "chat": of(&b.Chat), "owner": of(&b.Owner), "assistant": of(&b.Assistant)})
}

func (m *manifest) hooks(n *node, at string) {
	l := &m.a.HookLimits
	m.fields(n, at, map[string]read{"memory": m.size(&l.Memory), "time": m.span(&l.Time), "total": m.span(&l.Total)})
}
