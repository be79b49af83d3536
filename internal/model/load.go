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
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// Bounds of connectors' files.
const (
	mostFile  = 256 << 10 // bytes of one
	mostFiles = 1000
)

// Problem is what is wrong with a connector's file.
type Problem struct {
	File  string
	Line  int    // from 1; 0: of the file
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

// endings are those of connectors' files, and how they are written.
var endings = []struct {
	ending string
	yaml   bool
}{{".conn.yao", false}, {".conn.jsonc", false}, {".conn.json", false}, {".conn.yaml", true}, {".conn.yml", true}, {".yaml", true}, {".yml", true}}

// Load reads the connectors of a directory: NAME.conn.yao, NAME.yaml; in
// subdirectories their names are joined by dots. Files that are wrong are left
// out of the map and told in the error, with file, line and field. A directory
// that is not there has none. Those of [Known] are added, by names that no file
// has.
func Load(dir string, env func(string) (string, bool)) (map[string]Connector, error) {
	all := map[string]Connector{}
	var problems []error
	wrong := map[string]bool{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if len(all)+len(problems) > mostFiles {
			return fmt.Errorf("%w: %s: it has more than %d files", atoll.ErrInvalid, dir, mostFiles)
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
	for name, c := range Known(env) {
		if _, ok := all[name]; !ok && !wrong[name] {
			all[name] = c
		}
	}
	return all, errors.Join(problems...)
}

// nameOf is the name of the connector in a file, if it is one.
func nameOf(rel string) (name string, isYAML, ok bool) {
	for _, e := range endings {
		if stem, ok := strings.CutSuffix(rel, e.ending); ok && stem != "" && !strings.HasPrefix(path.Base(rel), ".") {
			return strings.ReplaceAll(stem, "/", "."), e.yaml, true
		}
	}
	return "", false, false
}

func readFile(name, id string, isYAML bool, env func(string) (string, bool)) (Connector, error) {
	info, err := os.Stat(name) // a link leads to a file
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
	b, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return Connector{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > mostFile {
		return Connector{}, &Problem{File: name, Text: fmt.Sprintf("it has more than %d bytes", mostFile)}
	}
	return Parse(b, name, id, isYAML, env)
}

// Parse reads a connector's file: YAML, or JSON with comments.
func Parse(b []byte, file, name string, isYAML bool, env func(string) (string, bool)) (Connector, error) {
	doc, err := parseJSON(b)
	if isYAML {
		doc, err = parseYAML(b)
	}
	r := reader{c: Connector{Name: name, Source: file}, file: file, env: env}
	if err != nil {
		var p *Problem
		if errors.As(err, &p) {
			p.File = file
		}
		return r.c, err
	}
	r.fields("", doc)
	if len(r.problems) == 0 {
		r.complete()
	}
	return r.c, errors.Join(r.problems...)
}

// A maker is an API that is known without a file.
type maker struct {
	name string
	api  dialect.Name
	base string
	key  string // of the environment
	at   string // of the environment: its base
}

var makers = []maker{
	{"anthropic", dialect.Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	{"openai", dialect.OpenAI, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
	{"responses", dialect.Responses, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
	{"gemini", dialect.Gemini, "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"},
	{"deepseek", dialect.OpenAI, "https://api.deepseek.com", "DEEPSEEK_API_KEY", ""},
}

func makerOf(name string) (maker, bool) {
	i := slices.IndexFunc(makers, func(m maker) bool { return m.name == name })
	if i < 0 {
		return maker{}, false
	}
	return makers[i], true
}

// Default is the name of the connector that ATOLL_MODEL_* describe, and that
// comes before all others where none is named.
const Default = "default"

// Known returns the connectors that the environment gives the keys of:
// anthropic, openai, responses, gemini and deepseek, with whatever model is
// asked for; and default, of ATOLL_MODEL_API (a name of those), ATOLL_MODEL_BASE,
// ATOLL_MODEL_KEY and ATOLL_MODEL.
func Known(env func(string) (string, bool)) map[string]Connector {
	all := map[string]Connector{}
	get := func(name string) string {
		if name == "" {
			return ""
		}
		v, _ := env(name)
		return v
	}
	for _, m := range makers {
		c := Connector{Name: m.name, API: m.api, Base: m.base, Key: get(m.key), Models: []string{"*"}, Source: "$" + m.key}
		if b := get(m.at); b != "" {
			c.Base = b
		}
		if c.Key != "" {
			all[m.name] = c
		}
	}
	kind := get("ATOLL_MODEL_API")
	m, ok := makerOf(kind)
	if !ok {
		return all
	}
	c := Connector{
		Name: Default, API: m.api, Base: m.base, Key: get("ATOLL_MODEL_KEY"), Model: get("ATOLL_MODEL"), Source: "$ATOLL_MODEL_API",
	}
	if c.Model == "" {
		c.Models = []string{"*"}
	}
	if b := get("ATOLL_MODEL_BASE"); b != "" {
		c.Base = b
	}
	if c.Key == "" {
		c.Key = get(m.key)
	}
	all[Default] = c
	return all
}

// Pick returns the connector of a name, which may be written with slashes, as
// its file. Without a name it is the default one, else one that speaks the
// first of the dialects that the caller likes, else the only one. What is not
// there is ErrNotFound.
func Pick(all map[string]Connector, name string, likes ...dialect.Name) (Connector, error) {
	if name != "" {
		c, ok := all[strings.ReplaceAll(strings.TrimPrefix(name, "connectors/"), "/", ".")]
		if !ok {
			return c, fmt.Errorf("%w: connector %q; there are: %s", atoll.ErrNotFound, name, listed(all))
		}
		return c, nil
	}
	if c, ok := all[Default]; ok {
		return c, nil
	}
	names := sorted(all)
	for _, own := range []bool{true, false} { // a file's before the environment's
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
	for _, m := range makers {
		if c, ok := all[m.name]; ok {
			return c, nil
		}
	}
	return Connector{}, fmt.Errorf("%w: a connector must be named; there are: %s", atoll.ErrNotFound, listed(all))
}

func sorted(all map[string]Connector) []string {
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func listed(all map[string]Connector) string {
	if len(all) == 0 {
		return "none (set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or add a file to connectors/)"
	}
	return strings.Join(sorted(all), ", ")
}
