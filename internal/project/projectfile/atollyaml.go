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

// configSection is a section of .atoll.yaml that belongs to atoll's own configuration and is read
// elsewhere.
const configSection = "defaults"

// Keys returns the top-level keys of .atoll.yaml that this package reads.
func Keys() []string {
	list := keysOf((&reader{}).topFields(&File{}))
	return slices.DeleteFunc(list, func(k string) bool { return k == configSection })
}

// parseAtollYAML parses an .atoll.yaml.
func (r *reader) parseAtollYAML(f *File, top *yaml.Node) { r.parseSection(top, "", r.topFields(f)) }

// topFields returns the top-level keys of an .atoll.yaml.
func (r *reader) topFields(f *File) fields {
	return fields{
		configSection: func(*yaml.Node, string) {},
		"image":       r.textField(&f.Image),
		"driver":      r.parsedField(func(text string) error { f.Driver = text; return atoll.CheckName(text) }),
		"memory":      r.sizeField(&f.Memory),
		"disk":        r.sizeField(&f.Disk),
		"cpus":        r.numberField(&f.CPUs),
		"network":     r.networkField(&f.Network),
		"env":         r.envField(&f.Env),
		"env_files":   r.textsField(&f.EnvFiles, CheckPattern),
		"prepare":     r.commandsField(&f.Prepare),
		"start":       r.commandsField(&f.Start),
		"agent":       r.parsedField(func(text string) error { f.Agent = text; return atoll.CheckName(text) }),
		"ports":       r.portsField(&f.Ports),
		"main_port":   r.portField(&f.MainPort),
		"sync": func(n *yaml.Node, path string) {
			r.parseSection(n, path, fields{
				"mode":      enumField(r, &f.Sync.Mode, atoll.SyncManual, atoll.SyncAutoCommit, atoll.SyncAutoIdle),
				"artifacts": r.textsField(&f.Sync.Artifacts, CheckPattern),
			})
		},
		"terminal": func(n *yaml.Node, path string) {
			r.parseSection(n, path, fields{"shell": r.textField(&f.Terminal.Shell), "provider": enumField(r, &f.Terminal.Provider, Providers()...)})
		},
	}
}

// networkField parses {mode, allow, deny}, or the mode alone.
func (r *reader) networkField(to *Network) func(*yaml.Node, string) {
	mode := enumField(r, &to.Mode, atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen)
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.ScalarNode && !isNull(n) {
			mode(n, path)
			return
		}
		r.parseSection(n, path, fields{"mode": mode, "allow": r.textsField(&to.Allow, nil), "deny": r.textsField(&to.Deny, nil)})
	}
}

// envField parses {NAME: value}, or a list of NAME=VALUE and NAME.
func (r *reader) envField(to *[]Variable) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		n = resolveAlias(n)
		if n.Kind != yaml.SequenceNode {
			r.eachKey(n, path, func(k, v *yaml.Node) {
				if one, ok := r.parseVariable(k, v, path); ok {
					setVariable(to, one)
				}
			})
			return
		}
		for i, item := range r.list(n, path) {
			text, ok := r.scalarText(item, fmt.Sprintf("%s[%d]", path, i))
			if !ok {
				continue
			}
			name, value, given := strings.Cut(text, "=")
			if name == "" {
				r.addProblem(item, "%s[%d] %q: must be NAME=VALUE, or NAME to take it from the host", path, i, text)
				continue
			}
			one := Variable{Name: name, Value: value}
			if !given {
				one = Variable{Name: name, Host: true, From: name}
			}
			setVariable(to, one)
		}
	}
}

// setVariable sets a variable and replaces an earlier one of that name.
func setVariable(to *[]Variable, v Variable) {
	*to = append(slices.DeleteFunc(*to, func(o Variable) bool { return o.Name == v.Name }), v)
}

// portsField parses a list of ports, or {name: port}.
func (r *reader) portsField(to *[]Port) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = nil
		add := func(at *yaml.Node, path, name, text string) {
			p, err := parsePort(text)
			switch {
			case err != nil:
				r.addProblem(at, "%s %q: %v", path, text, err)
			case name != "" && atoll.CheckName(name) != nil:
				r.addProblem(at, "%s: %v", path, atoll.CheckName(name))
			case slices.ContainsFunc(*to, func(o Port) bool { return o.Port == p }):
				r.addProblem(at, "%s: port %d is listed twice", path, p)
			default:
				*to = append(*to, Port{Port: p, Name: name})
			}
		}
		if n = resolveAlias(n); n.Kind == yaml.MappingNode {
			r.eachKey(n, path, func(k, v *yaml.Node) {
				if text, ok := r.scalarText(v, joinPath(path, k.Value)); ok {
					add(v, joinPath(path, k.Value), k.Value, text)
				}
			})
			return
		}
		for i, item := range r.list(n, path) {
			at := fmt.Sprintf("%s[%d]", path, i)
			if text, ok := r.scalarText(item, at); ok {
				add(item, at, "", text)
			}
		}
	}
}

// CheckPattern reports a file pattern that could match files outside of the working tree.
func CheckPattern(text string) error {
	if strings.ContainsAny(text, "\n\r") || slices.Contains(strings.Split(text, "/"), "..") || path.Clean(text) == "/" {
		return errors.New("must be a pattern of names in the working tree, like .env*")
	}
	return nil
}
