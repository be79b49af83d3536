package projectfile

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// Lifecycle commands of a devcontainer, in their order. Those of the first
// group are run once.
var once, each = []string{"onCreateCommand", "updateContentCommand", "postCreateCommand"}, "postStartCommand"

// undone are keys of devcontainer.json that say something that is not done here,
// each with what to do about it. Keys that only editors read are left out.
var undone = map[string]string{
	"build":             "images are not built: build it, and name it as image",
	"dockerFile":        "images are not built: build it, and name it as image",
	"dockerComposeFile": "one sandbox is made, not several containers",
	"features":          "features are not installed: name an image that has them, or install them in prepare",
	"initializeCommand": "nothing is run on the host",
	"mounts":            "nothing of the host is mounted; 'atoll workspace' keeps files over sandboxes",
	"workspaceMount":    "the repository is carried in, not mounted",
	"runArgs":           "they are Docker's",
	"privileged":        "a sandbox is never privileged",
	"capAdd":            "a sandbox gets no capabilities",
	"securityOpt":       "the sandbox's own rules stay",
	"postAttachCommand": "nothing is run when somebody attaches",
	"appPort":           "name it in forwardPorts",
}

// container reads a devcontainer.json. What it has that is not known is for
// others.
func (r *reader) container(f *File, top *yaml.Node) {
	prepare := make(map[string][]Command)
	var cannot []string
	r.mapping(top, "", func(k, v *yaml.Node) {
		key := k.Value
		if why, ok := undone[key]; ok && !isNull(v) {
			cannot = append(cannot, key+" ("+why+")")
			return
		}
		switch key {
		case "image":
			r.text(&f.Image)(v, key)
		case "remoteUser":
			r.text(&f.User)(v, key)
		case "containerEnv", "remoteEnv":
			r.containerEnv(f, v, key)
		case "forwardPorts":
			r.forward(f, v, key)
		case "hostRequirements":
			r.needs(f, v, key)
		case "workspaceFolder":
			if text, ok := r.scalar(v, key); ok {
				f.folder(text)
			}
		case each:
			f.Start = r.lifecycle(v, key)
			for i := range f.Start {
				f.Start[i].Wait = true
			}
		default:
			if slices.Contains(once, key) {
				prepare[key] = r.lifecycle(v, key)
			}
		}
	})
	for _, key := range once {
		f.Prepare = append(f.Prepare, prepare[key]...)
	}
	slices.Sort(cannot)
	for _, c := range cannot {
		f.Warnings = append(f.Warnings, r.name+": "+c)
	}
}

// hostEnv is where a devcontainer names a variable of the host.
var hostEnv = regexp.MustCompile(`\$\{(localEnv|env):([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// containerEnv reads variables. One that is nothing but a host's is that;
// others with places to fill in are left out.
func (r *reader) containerEnv(f *File, n *yaml.Node, path string) {
	r.mapping(n, path, func(k, v *yaml.Node) {
		if isNull(v) {
			return // it is to be unset
		}
		one, ok := r.variable(k, v, path)
		if !ok {
			return
		}
		if m := hostEnv.FindStringSubmatch(one.Value); m != nil && m[0] == one.Value {
			one = Variable{Name: one.Name, Host: true, From: m[2], Value: strings.TrimPrefix(m[3], ":")}
		} else if strings.Contains(one.Value, "${") {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s (only ${localEnv:NAME} by itself is filled in)", r.name, join(path, one.Name)))
			return
		}
		set(&f.Env, one)
	})
}

// forward reads ports; those of other hosts are not the sandbox's.
func (r *reader) forward(f *File, n *yaml.Node, path string) {
	for i, item := range r.list(n, path) {
		at := fmt.Sprintf("%s[%d]", path, i)
		text, ok := r.scalar(item, at)
		if !ok {
			continue
		}
		p, err := parsePort(strings.TrimPrefix(text, "localhost:"))
		if err != nil {
			if strings.Contains(text, ":") {
				f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s %s (there is one sandbox, and no host of that name)", r.name, at, strconv.Quote(text)))
			} else {
				r.bad(item, "%s %q: %v", at, text, err)
			}
			continue
		}
		if !slices.ContainsFunc(f.Ports, func(o Port) bool { return o.Port == p }) {
			f.Ports = append(f.Ports, Port{Port: p})
		}
	}
}

// needs reads what the host must have, which is what the sandbox gets.
func (r *reader) needs(f *File, n *yaml.Node, path string) {
	r.mapping(n, path, func(k, v *yaml.Node) {
		switch at := join(path, k.Value); k.Value {
		case "cpus":
			r.amount(&f.CPUs)(v, at)
			f.CPUs = math.Ceil(f.CPUs)
		case "memory":
			r.size(&f.Memory)(v, at)
		case "storage":
			r.size(&f.Disk)(v, at)
		case "gpu":
			if v.Value != "false" && v.Value != "optional" {
				f.Warnings = append(f.Warnings, r.name+": hostRequirements.gpu (a sandbox has none)")
			}
		}
	})
}

// folder takes where the work is, if that is in the workspace.
func (f *File) folder(text string) {
	dir := path.Clean(text)
	switch {
	case dir == atoll.DefaultDir:
	case strings.HasPrefix(dir, atoll.DefaultDir+"/"):
		f.Dir = dir
	default:
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: workspaceFolder %s (the repository is in %s)", f.Sources[len(f.Sources)-1], strconv.Quote(text), atoll.DefaultDir))
	}
}

// lifecycle reads a command: a line, a list of arguments, or several of them by
// name.
func (r *reader) lifecycle(n *yaml.Node, at string) []Command {
	n = resolved(n)
	if isNull(n) || n.Kind == yaml.ScalarNode && n.Value == "" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		if c, ok := r.command(n, at); ok {
			return []Command{c}
		}
		return nil
	}
	var list []Command
	r.mapping(n, at, func(k, v *yaml.Node) {
		if v.Kind == yaml.MappingNode {
			r.bad(v, "%s must be a command", join(at, k.Value))
			return
		}
		if c, ok := r.command(v, join(at, k.Value)); ok {
			c.Name = k.Value
			list = append(list, c)
		}
	})
	return list
}
