package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Limits of connector files.
const (
	maxFile  = 256 << 10 // bytes of one
	maxFiles = 1000
)

// Problem is a fault of a connector file.
type Problem struct {
	File  string
	Line  int    // from 1; 0: the whole file
	Field string // "options.key"
	Text  string
}

func (p *Problem) Error() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d", p.Line)
	}
	if p.Field != "" {
		s += ": " + p.Field
	}
	return s + ": " + p.Text
}

// Unwrap returns ErrInvalid.
func (p *Problem) Unwrap() error { return atoll.ErrInvalid }

// fileSuffixes are the suffixes of connector files, and their formats.
var fileSuffixes = []struct {
	ending string
	yaml   bool
}{{".conn.yao", false}, {".conn.jsonc", false}, {".conn.json", false}, {".conn.yaml", true}, {".conn.yml", true}, {".yaml", true}, {".yml", true}}

// Load loads the connectors of a directory: NAME.conn.yao, NAME.yaml; names in
// subdirectories are joined by dots. Invalid files are left out and reported in the error
// with file, line and field. A missing directory has no connectors. The connectors of
// [KnownConnectors] are added unless a file has their name.
func Load(dir string, env func(string) (string, bool)) (map[string]Connector, error) {
	all := map[string]Connector{}
	var problems []error
	wrong := map[string]bool{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if len(all)+len(problems) > maxFiles {
			return fmt.Errorf("%w: %s: it has more than %d files", atoll.ErrInvalid, dir, maxFiles)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		id, isYAML, ok := nameOf(filepath.ToSlash(rel))
		if !ok {
			return nil
		}
		c, err := readFile(name, id, isYAML, env)
		if err == nil && all[id].Source != "" {
			err = &Problem{File: name, Text: "it has the same name as " + all[id].Source}
		}
		if err != nil {
			problems, wrong[id] = append(problems, err), true
			return nil
		}
		all[id] = c
		return nil
	})
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(all)+len(problems) == 0) {
		problems = append(problems, fmt.Errorf("connectors: %w", err))
	}
	for name, c := range KnownConnectors(env) {
		if _, ok := all[name]; !ok && !wrong[name] {
			all[name] = c
		}
	}
	return all, errors.Join(problems...)
}

// nameOf returns the name of the connector in a file; ok: it is a connector file.
func nameOf(rel string) (name string, isYAML, ok bool) {
	for _, e := range fileSuffixes {
		if stem, ok := strings.CutSuffix(rel, e.ending); ok && stem != "" && !strings.HasPrefix(path.Base(rel), ".") {
			return strings.ReplaceAll(stem, "/", "."), e.yaml, true
		}
	}
	return "", false, false
}

func readFile(name, id string, isYAML bool, env func(string) (string, bool)) (Connector, error) {
	info, err := os.Stat(name) // follows links
	if err != nil {
		return Connector{}, err
	}
	if !info.Mode().IsRegular() {
		return Connector{}, &Problem{File: name, Text: "it is not a file"}
	}
	f, err := os.Open(name)
	if err != nil {
		return Connector{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Connector{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxFile {
		return Connector{}, &Problem{File: name, Text: fmt.Sprintf("it has more than %d bytes", maxFile)}
	}
	return Parse(b, name, id, isYAML, env)
}

// Parse parses a connector file: YAML, or JSON with comments.
func Parse(b []byte, file, name string, isYAML bool, env func(string) (string, bool)) (Connector, error) {
	doc, err := parseJSON(b)
	if isYAML {
		doc, err = parseYAML(b)
	}
	r := connectorReader{c: Connector{Name: name, Source: file}, file: file, env: env}
	if err != nil {
		var p *Problem
		if errors.As(err, &p) {
			p.File = file
		}
		return r.c, err
	}
	r.readFields("", doc)
	if len(r.problems) == 0 {
		r.checkConnector()
	}
	return r.c, errors.Join(r.problems...)
}

// SelectConnector returns the connector with a name, which may have slashes like its file.
// Without a name it is the default one, else one with the first of the preferred
// dialects, else the only one. A missing connector is ErrNotFound.
func SelectConnector(all map[string]Connector, name string, likes ...dialect.Name) (Connector, error) {
	if name != "" {
		c, ok := all[strings.ReplaceAll(strings.TrimPrefix(name, "connectors/"), "/", ".")]
		if !ok {
			return c, fmt.Errorf("%w: connector %q; there are: %s", atoll.ErrNotFound, name, listNames(all))
		}
		return c, nil
	}
	if c, ok := all[Default]; ok {
		return c, nil
	}
	names := sortedNames(all)
	for _, own := range []bool{true, false} { // files before the environment
		for _, api := range likes {
			for _, n := range names {
				if c := all[n]; c.API == api && own == !strings.HasPrefix(c.Source, "$") {
					return c, nil
				}
			}
		}
	}
	if len(names) == 1 {
		return all[names[0]], nil
	}
	for _, m := range knownAPIs {
		if c, ok := all[m.name]; ok {
			return c, nil
		}
	}
	return Connector{}, fmt.Errorf("%w: a connector must be named; there are: %s", atoll.ErrNotFound, listNames(all))
}

func sortedNames(all map[string]Connector) []string {
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func listNames(all map[string]Connector) string {
	if len(all) == 0 {
		return "none (set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or add a file to connectors/)"
	}
	return strings.Join(sortedNames(all), ", ")
}
