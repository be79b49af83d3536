package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
)

// document is the OpenAPI document, generated at the first request.
type document struct {
	once sync.Once
	json []byte
	yaml []byte
	err  error
}

// registerDocument registers the routes of the OpenAPI document.
func (s *Server) registerDocument(mux *http.ServeMux) {
	serve := func(kind string, data func() []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s.openapi.once.Do(s.writeOpenAPI)
			if s.openapi.err != nil {
				s.writeProblem(w, r, s.openapi.err)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(data()) // write errors mean that the client is gone
		}
	}
	mux.HandleFunc("GET /openapi.json", serve("application/openapi+json", func() []byte { return s.openapi.json }))
	mux.HandleFunc("GET /openapi.yaml", serve("application/openapi+yaml", func() []byte { return s.openapi.yaml }))
}

func (s *Server) writeOpenAPI() {
	doc := *s.api.OpenAPI()
	components := *doc.Components
	components.Schemas = newPublished(&doc)
	doc.Components = &components
	s.openapi.json, s.openapi.err = json.MarshalIndent(&doc, "", "  ")
	if s.openapi.err == nil {
		s.openapi.yaml, s.openapi.err = doc.YAML()
	}
}

// publishedSchemas are the schemas of the published document: those that operations refer to. A
// schema used in responses only lists its required members.
type publishedSchemas struct {
	huma.Registry

	schemas map[string]*huma.Schema
}

// MarshalJSON encodes the schemas.
func (p *publishedSchemas) MarshalJSON() ([]byte, error) { return json.Marshal(p.schemas) }

// Map returns the schemas by name.
func (p *publishedSchemas) Map() map[string]*huma.Schema { return p.schemas }

const schemaPrefix = "#/components/schemas/"

func newPublished(doc *huma.OpenAPI) *publishedSchemas {
	p := &publishedSchemas{Registry: doc.Components.Schemas, schemas: make(map[string]*huma.Schema)}
	asked, answered := make(map[string]bool), make(map[string]bool)
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete, item.Head} {
			if op == nil {
				continue
			}
			for _, param := range op.Parameters {
				p.collectRefs(param.Schema, asked)
			}
			if op.RequestBody != nil {
				p.collectContent(op.RequestBody.Content, asked)
			}
			for _, r := range op.Responses {
				p.collectContent(r.Content, answered)
			}
		}
	}
	all := doc.Components.Schemas.Map()
	for name := range answered {
		schema := all[name]
		if !asked[name] {
			schema = withRequired(schema, p.TypeFromRef(schemaPrefix+name))
		}
		p.schemas[name] = schema
	}
	for name := range asked {
		p.schemas[name] = all[name]
	}
	return p
}

func (p *publishedSchemas) collectContent(media map[string]*huma.MediaType, seen map[string]bool) {
	for _, m := range media {
		p.collectRefs(m.Schema, seen)
	}
}

// collectRefs adds the names of all schemas that s refers to.
func (p *publishedSchemas) collectRefs(s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, schemaPrefix); ok {
		if !seen[name] {
			seen[name] = true
			p.collectRefs(p.SchemaFromRef(s.Ref), seen)
		}
		return
	}
	p.collectRefs(s.Items, seen)
	if inner, ok := s.AdditionalProperties.(*huma.Schema); ok {
		p.collectRefs(inner, seen)
	}
	for _, inner := range s.Properties {
		p.collectRefs(inner, seen)
	}
	for _, group := range [][]*huma.Schema{s.OneOf, s.AnyOf, s.AllOf} {
		for _, inner := range group {
			p.collectRefs(inner, seen)
		}
	}
}

// withRequired returns a copy of the schema of a type that requires the members that encoding/json
// always writes, and allows further ones: responses may grow.
func withRequired(s *huma.Schema, t reflect.Type) *huma.Schema {
	c := *s
	c.Required = nil
	if c.AdditionalProperties == false {
		c.AdditionalProperties = nil
	}
	if t == nil || t.Kind() != reflect.Struct {
		return &c
	}
	for _, f := range reflect.VisibleFields(t) {
		tag := strings.Split(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || tag[0] == "" || tag[0] == "-" || s.Properties[tag[0]] == nil {
			continue
		}
		always := true
		for _, option := range tag[1:] {
			always = always && option != "omitempty" && option != "omitzero"
		}
		if always {
			c.Required = append(c.Required, tag[0])
		}
	}
	return &c
}

// The choice types give types with a fixed set of values their schemas.
type (
	stateChoice   string
	scopeChoice   string
	policyChoice  string
	networkChoice string
	syncChoice    string
	fileOpChoice  string
)

func enumSchema[T ~string](values ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	s.PrecomputeMessages()
	return s
}

// Schema returns the schema of sandbox states.
func (stateChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.Created, atoll.Starting, atoll.Running, atoll.Pausing, atoll.Paused, atoll.Stopping, atoll.Stopped, atoll.Archived, atoll.Failed, atoll.Destroyed)
}

// Schema returns the schema of scopes.
func (scopeChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost, atoll.ScopeOperate, atoll.ScopeAdmin)
}

// Schema returns the schema of lifecycle policies.
func (policyChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.PolicyOneshot, atoll.PolicySession, atoll.PolicyLongrunning, atoll.PolicyPersistent)
}

// Schema returns the schema of network modes.
func (networkChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen)
}

// Schema returns the schema of sync modes.
func (syncChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.SyncManual, atoll.SyncAutoCommit, atoll.SyncAutoIdle)
}

// Schema returns the schema of file operations.
func (fileOpChoice) Schema(huma.Registry) *huma.Schema {
	return enumSchema(atoll.FileReady, atoll.FileCreated, atoll.FileWritten, atoll.FileRemoved)
}

// schemaName names the schema of a type. Schemas of package agent get the prefix Agent.
func schemaName(t reflect.Type, hint string) string {
	const agents = "/atoll/agent"
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch {
	case strings.HasSuffix(t.PkgPath(), agents):
		return "Agent" + strings.TrimPrefix(name, "Agent")
	case strings.Contains(t.Name(), agents+"."): // a list type
		outer, _, _ := strings.Cut(t.Name(), "[")
		return outer + "Agent" + strings.TrimPrefix(strings.TrimPrefix(name, outer), "Agent")
	}
	return name
}

// newSchemas returns the schema registry with the choice types.
func newSchemas() huma.Registry {
	r := huma.NewMapRegistry(schemaPrefix, schemaName)
	r.RegisterTypeAlias(reflect.TypeFor[atoll.State](), reflect.TypeFor[stateChoice]())
	r.RegisterTypeAlias(reflect.TypeFor[atoll.Scope](), reflect.TypeFor[scopeChoice]())
	r.RegisterTypeAlias(reflect.TypeFor[atoll.Policy](), reflect.TypeFor[policyChoice]())
	r.RegisterTypeAlias(reflect.TypeFor[atoll.NetworkMode](), reflect.TypeFor[networkChoice]())
	r.RegisterTypeAlias(reflect.TypeFor[atoll.SyncMode](), reflect.TypeFor[syncChoice]())
	r.RegisterTypeAlias(reflect.TypeFor[atoll.FileOp](), reflect.TypeFor[fileOpChoice]())
	return r
}
