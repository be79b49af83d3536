package projectfile

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// others are sections of .atoll.yaml that atoll's configuration reads, wherever
// in the repository a command is given.
const others = "defaults"

// Keys are those of the top of .atoll.yaml that this package reads.
func Keys() []string {
	list := keysOf((&reader{}).ofTop(&File{}))
	return slices.DeleteFunc(list, func(k string) bool { return k == others })
}

// own reads an .atoll.yaml.
func (r *reader) own(f *File, top *yaml.Node) { r.section(top, "", r.ofTop(f)) }

// ofTop are the keys at the top of an .atoll.yaml.
func (r *reader) ofTop(f *File) fields {
	return fields{
		others:      func(*yaml.Node, string) {},
		"image":     r.text(&f.Image),
		"driver":    r.parsed(func(text string) error { f.Driver = text; return atoll.CheckName(text) }),
		"memory":    r.size(&f.Memory),
		"disk":      r.size(&f.Disk),
		"cpus":      r.amount(&f.CPUs),
		"network":   r.network(&f.Network),
		"env":       r.env(&f.Env),
		"env_files": r.texts(&f.EnvFiles, CheckPattern),
		"prepare":   r.commands(&f.Prepare),
		"start":     r.commands(&f.Start),
		"agent":     r.parsed(func(text string) error { f.Agent = text; return atoll.CheckName(text) }),
		"ports":     r.ports(&f.Ports),
		"main_port": r.port(&f.MainPort),
		"sync": func(n *yaml.Node, path string) {
			r.section(n, path, fields{
				"mode":      oneOf(r, &f.Sync.Mode, atoll.SyncManual, atoll.SyncAutoCommit, atoll.SyncAutoIdle),
				"artifacts": r.texts(&f.Sync.Artifacts, CheckPattern),
			})
		},
		"terminal": func(n *yaml.Node, path string) {
			r.section(n, path, fields{"shell": r.text(&f.Terminal.Shell), "provider": oneOf(r, &f.Terminal.Provider, Providers()...)})
		},
	}
}

// network reads {mode, allow, deny}, or the mode alone.
func (r *reader) network(to *Network) func(*yaml.Node, string) {
	mode := oneOf(r, &to.Mode, atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen)
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.ScalarNode && !isNull(n) {
			mode(n, path)
			return
		}
		r.section(n, path, fields{"mode": mode, "allow": r.texts(&to.Allow, nil), "deny": r.texts(&to.Deny, nil)})
	}
}

// env reads {NAME: value}, or a list of NAME=VALUE and NAME.
func (r *reader) env(to *[]Variable) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolved(n)
		if n.Kind != yaml.SequenceNode {
			r.mapping(n, path, func(k, v *yaml.Node) {
				if one, ok := r.variable(k, v, path); ok {
					set(to, one)
				}
			})
			return
		}
		for i, item := range r.list(n, path) {
			text, ok := r.scalar(item, fmt.Sprintf("%s[%d]", path, i))
			if !ok {
				continue
			}
			name, value, given := strings.Cut(text, "=")
			if name == "" {
				r.bad(item, "%s[%d] %q: must be NAME=VALUE, or NAME to take it from the host", path, i, text)
				continue
			}
			one := Variable{Name: name, Value: value}
			if !given {
				one = Variable{Name: name, Host: true, From: name}
			}
			set(to, one)
		}
	}
}

// set sets a variable, over what was said of it before.
func set(to *[]Variable, v Variable) {
	*to = append(slices.DeleteFunc(*to, func(o Variable) bool { return o.Name == v.Name }), v)
}

// ports reads a list of ports, or {name: port}.
func (r *reader) ports(to *[]Port) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		add := func(at *yaml.Node, path, name, text string) {
			p, err := parsePort(text)
			switch {
			case err != nil:
				r.bad(at, "%s %q: %v", path, text, err)
			case name != "" && atoll.CheckName(name) != nil:
				r.bad(at, "%s: %v", path, atoll.CheckName(name))
			case slices.ContainsFunc(*to, func(o Port) bool { return o.Port == p }):
				r.bad(at, "%s: port %d is there already", path, p)
			default:
				*to = append(*to, Port{Port: p, Name: name})
			}
		}
		if n = resolved(n); n.Kind == yaml.MappingNode {
			r.mapping(n, path, func(k, v *yaml.Node) {
				if text, ok := r.scalar(v, join(path, k.Value)); ok {
					add(v, join(path, k.Value), k.Value, text)
				}
			})
			return
		}
		for i, item := range r.list(n, path) {
			at := fmt.Sprintf("%s[%d]", path, i)
			if text, ok := r.scalar(item, at); ok {
				add(item, at, "", text)
			}
		}
	}
}

// CheckPattern reports a pattern of files that could mean some outside of the
// working tree.
func CheckPattern(text string) error {
	if strings.ContainsAny(text, "\n\r") || slices.Contains(strings.Split(text, "/"), "..") || path.Clean(text) == "/" {
		return errors.New("must be a pattern of names in the working tree, like .env*")
	}
	return nil
}
