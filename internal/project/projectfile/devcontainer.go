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

// The lifecycle commands of a devcontainer in their order: those that run once, and the one that runs at
// each start.
var onceCommands, startCommand = []string{"onCreateCommand", "updateContentCommand", "postCreateCommand"}, "postStartCommand"

// unsupported are keys of devcontainer.json that atoll does not support, each with an explanation. Keys
// that only editors use are left out.
var unsupported = map[string]string{
	"build":             "images are not built: build it, and name it as image",
	"dockerFile":        "images are not built: build it, and name it as image",
	"dockerComposeFile": "there is one sandbox, not several containers",
	"initializeCommand": "commands are not run on the host",
	"mounts":            "directories of the host are not mounted; use 'atoll workspace' for files that outlive sandboxes",
	"workspaceMount":    "the repository is imported, not mounted",
	"runArgs":           "they are arguments of docker run",
	"privileged":        "a sandbox is never privileged",
	"capAdd":            "a sandbox gets no capabilities",
	"securityOpt":       "a sandbox keeps its own security options",
	"postAttachCommand": "no command runs when a client attaches",
	"appPort":           "name it in forwardPorts",
}

// parseDevcontainer parses a devcontainer.json. Unknown keys are ignored; they belong to other tools.
func (r *reader) parseDevcontainer(f *File, top *yaml.Node) {
	prepare := make(map[string][]Command)
	var cannot []string
	var labels map[int]string
	r.eachKey(top, "", func(k, v *yaml.Node) {
		key := k.Value
		if why, ok := unsupported[key]; ok && !isNull(v) {
			cannot = append(cannot, key+" ("+why+")")
			return
		}
		switch key {
		case "image":
			r.textField(&f.Image)(v, key)
		case "remoteUser":
			r.textField(&f.User)(v, key)
		case "containerEnv", "remoteEnv":
			r.parseContainerEnv(f, v, key)
		case "forwardPorts":
			r.parseForwardPorts(f, v, key)
		case "portsAttributes":
			labels = r.parseLabels(v, key)
		case "features":
			f.Prepare = r.parseFeatures(f, v, key)
		case "hostRequirements":
			r.parseHostRequirements(f, v, key)
		case "workspaceFolder":
			if text, ok := r.scalarText(v, key); ok {
				f.setFolder(text)
			}
		case startCommand:
			f.Start = r.parseLifecycle(v, key)
			for i := range f.Start {
				f.Start[i].Wait = true
			}
		default:
			if slices.Contains(onceCommands, key) {
				prepare[key] = r.parseLifecycle(v, key)
			}
		}
	})
	f.setLabels(labels)
	for _, key := range onceCommands {
		f.Prepare = append(f.Prepare, prepare[key]...)
	}
	slices.Sort(cannot)
	for _, c := range cannot {
		f.Warnings = append(f.Warnings, r.name+": "+c)
	}
}

// hostEnv matches a reference to a variable of the host in a devcontainer.json.
var hostEnv = regexp.MustCompile(`\$\{(localEnv|env):([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// parseContainerEnv parses environment variables. A value that is exactly one reference to a host variable
// is supported; other values with references are skipped with a warning.
func (r *reader) parseContainerEnv(f *File, n *yaml.Node, path string) {
	r.eachKey(n, path, func(k, v *yaml.Node) {
		if isNull(v) {
			return // unset
		}
		one, ok := r.parseVariable(k, v, path)
		if !ok {
			return
		}
		if m := hostEnv.FindStringSubmatch(one.Value); m != nil && m[0] == one.Value {
			one = Variable{Name: one.Name, Host: true, From: m[2], Value: strings.TrimPrefix(m[3], ":")}
		} else if strings.Contains(one.Value, "${") {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s (only ${localEnv:NAME} by itself is filled in)", r.name, joinPath(path, one.Name)))
			return
		}
		setVariable(&f.Env, one)
	})
}

// parseForwardPorts parses ports. Ports of other hosts are skipped with a warning.
func (r *reader) parseForwardPorts(f *File, n *yaml.Node, path string) {
	for i, item := range r.list(n, path) {
		at := fmt.Sprintf("%s[%d]", path, i)
		text, ok := r.scalarText(item, at)
		if !ok {
			continue
		}
		p, err := parsePort(strings.TrimPrefix(text, "localhost:"))
		if err != nil {
			if strings.Contains(text, ":") {
				f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s %s (a sandbox is one host; there is no other)", r.name, at, strconv.Quote(text)))
			} else {
				r.addProblem(item, "%s %q: %v", at, text, err)
			}
			continue
		}
		if !slices.ContainsFunc(f.Ports, func(o Port) bool { return o.Port == p }) {
			f.Ports = append(f.Ports, Port{Port: p})
		}
	}
}

// parseHostRequirements parses the required resources, which the sandbox gets.
func (r *reader) parseHostRequirements(f *File, n *yaml.Node, path string) {
	r.eachKey(n, path, func(k, v *yaml.Node) {
		switch at := joinPath(path, k.Value); k.Value {
		case "cpus":
			r.numberField(&f.CPUs)(v, at)
			f.CPUs = math.Ceil(f.CPUs)
		case "memory":
			r.sizeField(&f.Memory)(v, at)
		case "storage":
			r.sizeField(&f.Disk)(v, at)
		case "gpu":
			if v.Value != "false" && v.Value != "optional" {
				f.Warnings = append(f.Warnings, r.name+": hostRequirements.gpu (a sandbox has none)")
			}
		}
	})
}

// setFolder sets the directory of terminals, if it is in the workspace.
func (f *File) setFolder(text string) {
	dir := path.Clean(text)
	switch {
	case dir == atoll.DefaultDir:
	case strings.HasPrefix(dir, atoll.DefaultDir+"/"):
		f.Dir = dir
	default:
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: workspaceFolder %s (the repository is in %s)", f.Sources[len(f.Sources)-1], strconv.Quote(text), atoll.DefaultDir))
	}
}

// parseLifecycle parses a command: a line, a list of arguments, or several commands by name.
func (r *reader) parseLifecycle(n *yaml.Node, at string) []Command {
	n = resolveAlias(n)
	if isNull(n) || n.Kind == yaml.ScalarNode && n.Value == "" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		if c, ok := r.parseCommand(n, at); ok {
			return []Command{c}
		}
		return nil
	}
	var list []Command
	r.eachKey(n, at, func(k, v *yaml.Node) {
		if v.Kind == yaml.MappingNode {
			r.addProblem(v, "%s must be a command", joinPath(at, k.Value))
			return
		}
		if c, ok := r.parseCommand(v, joinPath(at, k.Value)); ok {
			c.Name = k.Value
			list = append(list, c)
		}
	})
	return list
}
