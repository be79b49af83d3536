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

// Servers are the servers of a directory. Nil has none. Its methods are safe for
// concurrent use.
//
// A connection to a remote server is opened when it is first needed, and closed when
// it was idle for a while, so Close may be omitted.
type Servers struct {
	list map[string]*server
}

// NewServers returns servers of tools that a Go program provides, by name.
func NewServers(tools map[string][]Tool) *Servers {
	s := &Servers{list: make(map[string]*server, len(tools))}
	for name, list := range tools {
		s.list[name] = &server{tools: list}
	}
	return s
}

// server has tools of its own, or those of a remote server.
type server struct {
	tools    []Tool
	upstream *upstream // nil: it has its own
}

const (
	maxFile    = 1 << 20 // bytes of a server's file
	maxServers = 500     // files of a directory
	maxTools   = 500     // of a server
)

// suffixes are the suffixes of the names of server files.
var suffixes = []string{".mcp.yao", ".mcp.json", ".mcp.jsonc", ".yaml", ".yml"}

// Load loads the servers of a directory: NAME.mcp.yao (JSON with comments) and
// NAME.yaml. p are the processes that they may name; env looks up $ENV.NAME. Invalid
// files are left out and reported in the error with file, line and field. A missing
// directory has no servers.
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
		srv := f.readServer(name, p)
		if first, twice := from[name]; twice {
			f.addFault(nil, "", "%s is the server %q already", first, name)
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

// serverName returns the name of the server in a file; false: it is no server file.
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

// ToolNames returns the names of a server's tools without connecting to it; false:
// only the remote server knows them, or the server does not exist.
func (s *Servers) ToolNames(name string) ([]string, bool) {
	if !s.Has(name) {
		return nil, false
	}
	srv := s.list[name]
	if srv.upstream != nil {
		return srv.upstream.only, srv.upstream.only != nil
	}
	list := make([]string, 0, len(srv.tools))
	for _, t := range srv.tools {
		list = append(list, t.Name)
	}
	return list, true
}

// Tools returns the tools of a server; a non-nil only selects some of them. It
// connects to a remote server. Unknown names are ErrNotFound.
func (s *Servers) Tools(ctx context.Context, name string, only []string) ([]Tool, error) {
	if !s.Has(name) {
		return nil, fmt.Errorf("%w: no server of tools %q; there is: %s", atoll.ErrNotFound, name, strings.Join(s.Names(), ", "))
	}
	srv := s.list[name]
	tools := srv.tools
	if srv.upstream != nil {
		var err error
		if tools, err = srv.upstream.listTools(ctx); err != nil {
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

// Close closes the connections to remote servers, and stops the programs that were
// started for them. Later calls of their tools fail.
func (s *Servers) Close() error {
	if s == nil {
		return nil
	}
	var wg sync.WaitGroup
	for _, srv := range s.list {
		if srv.upstream != nil {
			wg.Go(srv.upstream.close)
		}
	}
	wg.Wait()
	return nil
}

// read returns the content of the file.
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

// readServer decodes the file.
func (f *file) readServer(name string, p Processes) *server {
	b, err := f.read()
	if err != nil {
		f.errs = append(f.errs, &Problem{File: f.name, Text: err.Error()})
		return nil
	}
	top := f.parse(b)
	if top == nil {
		return nil
	}
	r := f.openObject(top, "")
	if r == nil {
		return nil
	}
	for _, about := range []string{"name", "label", "description", "version", "id", "tags", "$schema"} {
		r.get(about) // only for display
	}
	srv := &server{}
	transport := r.readText("transport")
	if transport == "http" && r.o.of["base"] == nil && r.o.of["url"] != nil {
		transport = "streamable-http"
	}
	kinds := map[string]func(){
		"process":         func() { srv.tools = f.readProcesses(r, name, p) },
		"command":         func() { srv.tools = f.readCommands(r, name) },
		"http":            func() { srv.tools = f.readRequests(r, name) },
		"stdio":           func() { srv.upstream = f.readUpstream(r, name, transport) },
		"sse":             func() { srv.upstream = f.readUpstream(r, name, transport) },
		"streamable-http": func() { srv.upstream = f.readUpstream(r, name, transport) },
	}
	read := kinds[transport]
	if read == nil {
		r.addFault("transport", "it must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), transport)
		return nil
	}
	read()
	r.checkUnknown()
	return srv
}

// readTools decodes the tools of a server. A tool may be a mere text if short is not
// nil.
func (f *file) readTools(r *objectReader, server string, short func(n *node, field, text string) *Tool, long func(t *objectReader) *Tool) []Tool {
	n := r.get("tools")
	if n == nil {
		r.addFault("tools", "it is missing: it lists the tools")
		return nil
	}
	o, ok := n.value.(*object)
	if !ok {
		r.addFault("tools", "it must be an object of tools by name, not %s", n.kindName())
		return nil
	}
	if len(o.names) > maxTools {
		r.addFault("tools", "it has more than %d tools", maxTools)
		return nil
	}
	var list []Tool
	for _, name := range o.names {
		child, field := o.of[name], "tools."+name
		var t *Tool
		if s, ok := child.value.(string); ok && short != nil {
			t = short(child, field, s)
		} else if tr := f.openObject(child, field); tr != nil {
			description, schema := tr.readText("description"), f.schemaOf(tr)
			tr.get("label") // only for display
			if t = long(tr); t != nil {
				t.Description = description
				if schema != nil {
					t.Schema = schema
				}
			}
			tr.checkUnknown()
		}
		if t == nil {
			continue
		}
		t.Server, t.Name = server, name
		if _, err := readSchema(t.Schema, false); err != nil {
			f.addFault(child, field+".schema", "%v", err)
		}
		list = append(list, *t)
	}
	return list
}

// schemaOf decodes the schema of a tool; nil: it has none.
func (f *file) schemaOf(r *objectReader) json.RawMessage {
	n := r.get("schema")
	if n == nil {
		return nil
	}
	if _, ok := n.value.(*object); !ok {
		r.addFault("schema", "it must be an object, not %s", n.kindName())
		return nil
	}
	b, err := json.Marshal(n.toPlain())
	if err != nil {
		r.addFault("schema", "%v", err)
		return nil
	}
	return b
}

// schemaFor returns a schema for a tool without one: each field in its templates is a
// required text. For a tool with a schema, it reports fields that the schema lacks,
// and returns nil.
func (f *file) schemaFor(r *objectReader, fields []string) json.RawMessage {
	slices.Sort(fields)
	fields = slices.Compact(fields)
	if n := r.o.of["schema"]; n != nil {
		m, _ := n.toPlain().(map[string]any) // schemaOf reports other types
		props, ok := m["properties"].(map[string]any)
		for _, name := range fields {
			if _, there := props[name]; ok && !there {
				r.addFault("schema", "it has no property %q, which {{%s}} means", name, name)
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
		r.addFault("", "%v", err)
	}
	return b
}
