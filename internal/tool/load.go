package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Servers are those of a directory. Nil has none. Its methods may be called at
// once from many goroutines.
//
// A connection to a server elsewhere is made when it is first needed, and ended
// when nobody has needed it for a while: what is not closed costs nothing for
// long.
type Servers struct {
	list map[string]*server
}

// Made returns servers of tools that a program has made itself, by name.
func Made(tools map[string][]Tool) *Servers {
	s := &Servers{list: make(map[string]*server, len(tools))}
	for name, list := range tools {
		s.list[name] = &server{tools: list}
	}
	return s
}

// server has tools of its own, or passes on those of another.
type server struct {
	tools []Tool
	up    *upstream // nil: it has its own
}

const (
	maxFile    = 1 << 20 // bytes of a server's file
	maxServers = 500     // files of a directory
	maxTools   = 500     // of a server
)

// suffixes are how the names of servers' files end.
var suffixes = []string{".mcp.yao", ".mcp.json", ".mcp.jsonc", ".yaml", ".yml"}

// Load reads the servers of a directory: NAME.mcp.yao (JSON with comments),
// NAME.yaml. Processes are what they may name; env is the environment that
// $ENV.NAME in them means. Those that are wrong are left out, and told in the
// error with file, line and field. A directory that is not there has none.
func Load(dir string, p Processes, env func(string) (string, bool)) (*Servers, error) {
	s := &Servers{list: make(map[string]*server)}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("servers of tools: %w", err)
	}
	if len(entries) > maxServers {
		return s, fmt.Errorf("%w: %s has more than %d files", atoll.ErrQuota, dir, maxServers)
	}
	var errs []error
	from := make(map[string]string)
	for _, e := range entries {
		name, ok := serverName(e.Name())
		if !ok || e.IsDir() {
			continue
		}
		f := &file{name: filepath.Join(dir, e.Name()), env: env}
		srv := f.server(name, p)
		if first, twice := from[name]; twice {
			f.bad(nil, "", "%s is the server %q already", first, name)
		}
		from[name] = f.name
		if len(f.errs) > 0 {
			errs = append(errs, f.errs...)
			continue
		}
		s.list[name] = srv
	}
	if errs != nil {
		return s, fmt.Errorf("%w: %w", atoll.ErrInvalid, errors.Join(errs...))
	}
	return s, nil
}

// serverName returns the name of the server of a file.
func serverName(file string) (string, bool) {
	for _, suffix := range suffixes {
		if name, ok := strings.CutSuffix(file, suffix); ok && name != "" && !strings.HasPrefix(name, ".") {
			return name, true
		}
	}
	return "", false
}

// Names returns the names of the servers.
func (s *Servers) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.list))
}

// Has reports whether there is a server of that name.
func (s *Servers) Has(name string) bool { return s != nil && s.list[name] != nil }

// Known returns the names of a server's tools, without asking anybody; false:
// only the server knows them, or there is none of that name.
func (s *Servers) Known(name string) ([]string, bool) {
	if !s.Has(name) {
		return nil, false
	}
	srv := s.list[name]
	if srv.up != nil {
		return srv.up.only, srv.up.only != nil
	}
	list := make([]string, 0, len(srv.tools))
	for _, t := range srv.tools {
		list = append(list, t.Name)
	}
	return list, true
}

// Tools returns the tools of a server, or those of them that only names. It
// connects to a server elsewhere. Names that it does not have are ErrNotFound.
func (s *Servers) Tools(ctx context.Context, name string, only []string) ([]Tool, error) {
	if !s.Has(name) {
		return nil, fmt.Errorf("%w: no server of tools %q; there is: %s", atoll.ErrNotFound, name, strings.Join(s.Names(), ", "))
	}
	srv := s.list[name]
	tools := srv.tools
	if srv.up != nil {
		var err error
		if tools, err = srv.up.tools(ctx); err != nil {
			return nil, fmt.Errorf("tools of %s: %w", name, err)
		}
	}
	if only == nil {
		return slices.Clone(tools), nil
	}
	var list []Tool
	for _, want := range only {
		i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == want })
		if i < 0 {
			var names []string
			for _, t := range tools {
				names = append(names, t.Name)
			}
			return nil, fmt.Errorf("%w: server %s has no tool %q; there is: %s", atoll.ErrNotFound, name, want, strings.Join(names, ", "))
		}
		list = append(list, tools[i])
	}
	return list, nil
}

// Close ends the connections to servers elsewhere, and the programs that were
// started for them. What uses them later fails.
func (s *Servers) Close() error {
	if s == nil {
		return nil
	}
	var wg sync.WaitGroup
	for _, srv := range s.list {
		if srv.up != nil {
			wg.Go(srv.up.close)
		}
	}
	wg.Wait()
	return nil
}

// read returns what is in the file.
func (f *file) read() (b []byte, err error) {
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%w: it is no file, or has more than %d bytes", atoll.ErrInvalid, maxFile)
	}
	r, err := os.Open(f.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(io.LimitReader(r, maxFile))
}

// server reads the file.
func (f *file) server(name string, p Processes) *server {
	b, err := f.read()
	if err != nil {
		f.errs = append(f.errs, &Fault{File: f.name, Text: err.Error()})
		return nil
	}
	top := f.parse(b)
	if top == nil {
		return nil
	}
	r := f.object(top, "")
	if r == nil {
		return nil
	}
	for _, about := range []string{"name", "label", "description", "version", "id", "tags", "$schema"} {
		r.get(about) // for people
	}
	srv := &server{}
	transport := r.text("transport")
	if transport == "http" && r.o.of["base"] == nil && r.o.of["url"] != nil {
		transport = "streamable-http"
	}
	kinds := map[string]func(){
		"process":         func() { srv.tools = f.processes(r, name, p) },
		"command":         func() { srv.tools = f.commands(r, name) },
		"http":            func() { srv.tools = f.requests(r, name) },
		"stdio":           func() { srv.up = f.upstream(r, name, transport) },
		"sse":             func() { srv.up = f.upstream(r, name, transport) },
		"streamable-http": func() { srv.up = f.upstream(r, name, transport) },
	}
	read := kinds[transport]
	if read == nil {
		r.bad("transport", "it must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), transport)
		return nil
	}
	read()
	r.end()
	return srv
}

// each reads the tools of a server. A tool may be a mere text, where short takes
// one.
func (f *file) each(r *reader, server string, short func(n *node, field, text string) *Tool, long func(t *reader) *Tool) []Tool {
	n := r.get("tools")
	if n == nil {
		r.bad("tools", "it is missing: it says what there is to call")
		return nil
	}
	o, ok := n.value.(*object)
	if !ok {
		r.bad("tools", "it must be an object of tools by name, not %s", n.kind())
		return nil
	}
	if len(o.names) > maxTools {
		r.bad("tools", "it has more than %d tools", maxTools)
		return nil
	}
	var list []Tool
	for _, name := range o.names {
		child, field := o.of[name], "tools."+name
		var t *Tool
		if s, ok := child.value.(string); ok && short != nil {
			t = short(child, field, s)
		} else if tr := f.object(child, field); tr != nil {
			description, schema := tr.text("description"), f.schemaOf(tr)
			tr.get("label") // for people
			if t = long(tr); t != nil {
				t.Description = description
				if schema != nil {
					t.Schema = schema
				}
			}
			tr.end()
		}
		if t == nil {
			continue
		}
		t.Server, t.Name = server, name
		if _, err := readSchema(t.Schema, false); err != nil {
			f.bad(child, field+".schema", "%v", err)
		}
		list = append(list, *t)
	}
	return list
}

// schemaOf reads the schema of a tool; nil: it has none.
func (f *file) schemaOf(r *reader) json.RawMessage {
	n := r.get("schema")
	if n == nil {
		return nil
	}
	if _, ok := n.value.(*object); !ok {
		r.bad("schema", "it must be an object, not %s", n.kind())
		return nil
	}
	b, err := json.Marshal(n.plain())
	if err != nil {
		r.bad("schema", "%v", err)
		return nil
	}
	return b
}

// schemaFor returns a schema for a tool that has none: each field that its
// templates name is a text that must be there. With a schema, fields that it
// does not have are told.
func (f *file) schemaFor(r *reader, fields []string) json.RawMessage {
	slices.Sort(fields)
	fields = slices.Compact(fields)
	if n := r.o.of["schema"]; n != nil {
		m, _ := n.plain().(map[string]any) // told by schemaOf
		props, ok := m["properties"].(map[string]any)
		for _, name := range fields {
			if _, there := props[name]; ok && !there {
				r.bad("schema", "it has no property %q, which {{%s}} means", name, name)
			}
		}
		return nil
	}
	props := make(map[string]any)
	for _, name := range fields {
		props[name] = map[string]string{"type": "string"}
	}
	b, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": append([]string{}, fields...), "additionalProperties": false})
	if err != nil {
		r.bad("", "%v", err)
	}
	return b
}
