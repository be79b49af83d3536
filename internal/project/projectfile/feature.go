package projectfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// featureDir matches the key of a feature that is a directory beside the devcontainer.json. The name goes into a command.
var featureDir = regexp.MustCompile(`^\./[A-Za-z0-9][A-Za-z0-9._-]*$`)

// parseFeatures returns the commands that install features: those of the repository, which are a script. Others are downloads
// of a registry and are skipped with a warning.
func (r *reader) parseFeatures(f *File, n *yaml.Node, at string) (list []Command) {
	r.eachKey(n, at, func(k, v *yaml.Node) {
		if !featureDir.MatchString(k.Value) {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s %s (only features of this repository, ./NAME, are installed: name an image that has it, or install it in prepare)", r.name, at, k.Value))
			return
		}
		dir := path.Join(path.Dir(r.name), k.Value)
		options, err := r.readFeature(dir)
		if err != nil {
			r.addProblem(k, "%s: %v", joinPath(at, k.Value), err)
			return
		}
		r.parseFeatureOptions(options, v, joinPath(at, k.Value))
		list = append(list, Command{Name: k.Value, Shell: formatInstall(dir, options)})
	})
	return list
}

// readFeature returns the default options of a feature by name.
func (r *reader) readFeature(dir string) (map[string]string, error) {
	b, err := r.read(path.Join(dir, "devcontainer-feature.json"))
	if err != nil {
		return nil, fmt.Errorf("a feature has a devcontainer-feature.json and an install.sh: %w", err)
	}
	if b, err = hujson.Standardize(b); err != nil {
		return nil, err
	}
	var said struct {
		Options map[string]struct {
			Default any `json:"default"`
		} `json:"options"`
	}
	if err := json.Unmarshal(b, &said); err != nil {
		return nil, err
	}
	options := make(map[string]string)
	for name, o := range said.Options {
		if o.Default != nil {
			options[name] = fmt.Sprint(o.Default)
		}
	}
	_, err = r.read(path.Join(dir, "install.sh"))
	return options, err
}

// parseFeatureOptions parses the options that a devcontainer.json gives a feature: by name, or a version.
func (r *reader) parseFeatureOptions(options map[string]string, n *yaml.Node, at string) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode {
		if text, ok := r.scalarText(n, at); ok && !isNull(n) {
			options["version"] = text
		}
		return
	}
	r.eachKey(n, at, func(k, v *yaml.Node) {
		if text, ok := r.scalarText(v, joinPath(at, k.Value)); ok {
			options[k.Value] = text
		}
	})
}

// formatInstall returns the command that runs a copy of a feature's script, with its options as variables.
func formatInstall(dir string, options map[string]string) string {
	names := make([]string, 0, len(options))
	for name := range options {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(" " + formatOptionName(name) + "=" + quoteShell(options[name]))
	}
	return fmt.Sprintf(`d=$(mktemp -d) && cp -R %s/. "$d" && cd "$d" && chmod +x install.sh && env _REMOTE_USER="$(id -un)" _REMOTE_USER_HOME="$HOME" _CONTAINER_USER="$(id -un)" _CONTAINER_USER_HOME="$HOME"%s ./install.sh && rm -rf "$d"`,
		path.Join(atoll.DefaultDir, dir), b.String())
}

// formatOptionName returns the variable of an option, as the specification of features has it.
func formatOptionName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			return unicode.ToUpper(c)
		}
		return '_'
	}, name)
	if name == "" || unicode.IsDigit(rune(name[0])) {
		name = "_" + strings.TrimLeft(name, "0123456789_")
	}
	return name
}

func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// parseLabels returns the labels of ports, as names that ports can have, by port.
func (r *reader) parseLabels(n *yaml.Node, at string) map[int]string {
	labels := make(map[int]string)
	r.eachKey(n, at, func(k, v *yaml.Node) {
		port, err := parsePort(k.Value)
		if err != nil || resolveAlias(v).Kind != yaml.MappingNode {
			return // a range or a pattern
		}
		r.eachKey(v, joinPath(at, k.Value), func(k, v *yaml.Node) {
			if k.Value != "label" {
				return
			}
			text, _ := r.scalarText(v, at)
			name := strings.Trim(strings.Join(strings.FieldsFunc(strings.ToLower(text), func(c rune) bool {
				return (c < 'a' || c > 'z') && (c < '0' || c > '9')
			}), "-"), "-")
			if atoll.CheckName(name) == nil {
				labels[port] = name
			}
		})
	})
	return labels
}

// setLabels names ports that have no name. No two get the same.
func (f *File) setLabels(labels map[int]string) {
	for i, p := range f.Ports {
		name := labels[p.Port]
		if p.Name == "" && name != "" && !slices.ContainsFunc(f.Ports, func(o Port) bool { return o.Name == name }) {
			f.Ports[i].Name = name
		}
	}
}

// errNoFiles is the error of a reader that has only one file.
var errNoFiles = errors.New("no other file can be read")
