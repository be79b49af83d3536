package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// node is a value of a document, and its line.
type node struct {
	line   int
	value  any // in the types of encoding/json
	fields []namedNode
}

type namedNode struct {
	name string
	line int
	node node
}

const maxDepth = 32

func parseJSON(b []byte) (node, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if nestingDepth(b) > maxDepth {
		return node{}, &Problem{Text: fmt.Sprintf("it is nested more than %d deep", maxDepth)}
	}
	v, err := hujson.Parse(b)
	if err != nil {
		return node{}, &Problem{Text: err.Error()}
	}
	starts := []int{0}
	for i, c := range b {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return nodeFromJSON(&v, func(offset int) int { return sort.SearchInts(starts, offset+1) }), nil
}

// nestingDepth returns the depth of nested brackets, including those in texts.
func nestingDepth(b []byte) int {
	n, most := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			n++
			most = max(most, n)
		case '}', ']':
			n--
		}
	}
	return most
}

func nodeFromJSON(v *hujson.Value, line func(int) int) node {
	n := node{line: line(v.StartOffset)}
	switch t := v.Value.(type) {
	case *hujson.Object:
		m := map[string]any{}
		for i := range t.Members {
			e := &t.Members[i]
			name, _ := e.Name.Value.(hujson.Literal)
			f := namedNode{name: name.String(), line: line(e.Name.StartOffset), node: nodeFromJSON(&e.Value, line)}
			n.fields = append(n.fields, f)
			m[f.name] = f.node.value
		}
		n.value = m
	case *hujson.Array:
		list := []any{}
		for i := range t.Elements {
			list = append(list, nodeFromJSON(&t.Elements[i], line).value)
		}
		n.value = list
	case hujson.Literal:
		switch t.Kind() {
		case '"':
			n.value = t.String()
		case '0':
			n.value = t.Float()
		case 't', 'f':
			n.value = t.Bool()
		}
	}
	return n
}

func parseYAML(b []byte) (node, error) {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	if err != nil {
		return node{}, &Problem{Text: err.Error()}
	}
	var doc yaml.Node
	err = l.Load(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return node{line: 1, value: map[string]any{}}, nil
	}
	if err != nil {
		p := &Problem{Text: err.Error()}
		if e := (*yaml.LoadError)(nil); errors.As(err, &e) {
			p.Line, p.Text = e.Mark.Line, e.Message
		}
		return node{}, p
	}
	budget := 10_000
	return nodeFromYAML(doc.Content[0], 0, &budget)
}

func nodeFromYAML(v *yaml.Node, deep int, budget *int) (node, error) {
	n := node{line: v.Line}
	if *budget--; *budget < 0 || deep > maxDepth {
		return n, &Problem{Line: v.Line, Text: "it has too many values, or too deep"}
	}
	switch v.Kind {
	case yaml.AliasNode:
		return nodeFromYAML(v.Alias, deep+1, budget)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(v.Content); i += 2 {
			e, err := nodeFromYAML(v.Content[i+1], deep+1, budget)
			if err != nil {
				return n, err
			}
			f := namedNode{name: v.Content[i].Value, line: v.Content[i].Line, node: e}
			n.fields = append(n.fields, f)
			m[f.name] = e.value
		}
		n.value = m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range v.Content {
			e, err := nodeFromYAML(c, deep+1, budget)
			if err != nil {
				return n, err
			}
			list = append(list, e.value)
		}
		n.value = list
	case yaml.ScalarNode:
		if err := v.Decode(&n.value); err != nil {
			return n, &Problem{Line: v.Line, Text: "it is not a text, a number, or true or false"}
		}
		if i, ok := n.value.(int); ok {
			n.value = float64(i)
		}
	}
	return n, nil
}

// connectorReader decodes the fields of a connector.
type connectorReader struct {
	c        Connector
	file     string
	env      func(string) (string, bool)
	api      string
	line     int // of the API
	problems []error
}

func (r *connectorReader) addProblem(line int, field, text string, args ...any) {
	r.problems = append(r.problems, &Problem{File: r.file, Line: line, Field: field, Text: fmt.Sprintf(text, args...)})
}

// ignoredFields are fields for other programs.
var ignoredFields = []string{
	"name", "version", "description", "tags", "sort", "readonly", "builtin", "capabilities", "protocols", "supported_params", "$schema",
}

// readFields decodes the fields of an object; fields within options have the same meaning
// as outside.
func (r *connectorReader) readFields(within string, n node) {
	if _, ok := n.value.(map[string]any); !ok {
		r.addProblem(n.line, strings.TrimSuffix(within, "."), "it must be an object")
		return
	}
	seen := map[string]bool{}
	for _, f := range n.fields {
		field := within + f.name
		if seen[f.name] {
			r.addProblem(f.line, field, "it is there twice")
			continue
		}
		seen[f.name] = true
		switch {
		case slices.Contains(ignoredFields, f.name):
		case f.name == "options" && within == "":
			r.readFields("options.", f.node)
		default:
			r.readField(f, field)
		}
	}
}

func (r *connectorReader) readField(f namedNode, field string) {
	switch f.name {
	case "label":
		r.readText(f, field, &r.c.Label)
	case "type", "api":
		r.line = f.line
		r.readText(f, field, &r.api)
	case "host", "proxy", "base", "url":
		if r.readText(f, field, &r.c.Base); r.c.Base != "" {
			if u, err := url.Parse(r.c.Base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
				r.addProblem(f.line, field, "it must be a URL of http or https, without a user")
			}
		}
	case "key":
		r.readText(f, field, &r.c.Key)
		r.c.Key = strings.TrimSpace(r.c.Key)
		if strings.ContainsFunc(r.c.Key, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			r.addProblem(f.line, field, "a key has printable letters of ASCII only")
		}
	case "model":
		r.readText(f, field, &r.c.Model)
	case "models":
		r.readModels(f, field)
	case "headers":
		r.readHeaders(f, field)
	case "extra", "extra_body":
		m, ok := f.node.value.(map[string]any)
		if !ok {
			r.addProblem(f.line, field, "it must be an object")
			return
		}
		for k, v := range m {
			r.setExtra(k, v)
		}
	case "thinking", "temperature", "max_tokens":
		r.setExtra(f.name, f.node.value)
	case "hosted":
		var ok bool
		if r.c.Hosted, ok = f.node.value.(bool); !ok {
			r.addProblem(f.line, field, "it must be true or false")
		}
	case "prices":
		r.readPrices(f, field)
	case "timeout":
		r.readTimeout(f, field)
	case "auth_mode":
		var mode string
		if r.readText(f, field, &mode); mode != "" && mode != "bearer" {
			r.addProblem(f.line, field, "%q is not known: keys are sent as the API of the type wants them; use headers for others", mode)
		}
	default:
		r.addProblem(f.line, field, "unknown field; known are label, type, host, key, model, models, headers, extra, prices, hosted and timeout")
	}
}

func (r *connectorReader) setExtra(name string, v any) {
	if r.c.Extra == nil {
		r.c.Extra = map[string]any{}
	}
	r.c.Extra[name] = v
}

// envVariable matches a variable of the environment within a text.
var envVariable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// readText decodes a text, with variables of the environment.
func (r *connectorReader) readText(f namedNode, field string, to *string) {
	s, ok := f.node.value.(string)
	if !ok {
		r.addProblem(f.line, field, "it must be a text")
		return
	}
	*to = r.expandEnv(f.line, field, s)
}

func (r *connectorReader) expandEnv(line int, field, s string) string {
	get := func(name string) string {
		v, ok := r.env(name)
		if !ok || v == "" {
			r.addProblem(line, field, "the environment has no %s", name)
		}
		return v
	}
	if name, ok := strings.CutPrefix(s, "$ENV."); ok {
		return get(name)
	}
	return envVariable.ReplaceAllStringFunc(s, func(m string) string { return get(m[2 : len(m)-1]) })
}

func (r *connectorReader) readModels(f namedNode, field string) {
	list, ok := f.node.value.([]any)
	for _, v := range list {
		s, isText := v.(string)
		if ok = ok && isText; !ok {
			break
		}
		r.c.Models = append(r.c.Models, s)
	}
	if !ok {
		r.addProblem(f.line, field, "it must be a list of texts")
	}
}

// headerName matches a valid name of a header.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (r *connectorReader) readHeaders(f namedNode, field string) {
	if _, ok := f.node.value.(map[string]any); !ok {
		r.addProblem(f.line, field, "it must be an object of texts")
		return
	}
	r.c.Headers = map[string]string{}
	for _, h := range f.node.fields {
		var v string
		r.readText(h, field+"."+h.name, &v)
		if !headerName.MatchString(h.name) || strings.ContainsAny(v, "\r\n\x00") {
			r.addProblem(h.line, field+"."+h.name, "that can't be a header")
		}
		r.c.Headers[h.name] = v
	}
}

func (r *connectorReader) readPrices(f namedNode, field string) {
	if _, ok := f.node.value.(map[string]any); !ok {
		r.addProblem(f.line, field, "it must be an object: of models, or of input, output, cache_read and cache_write")
		return
	}
	models := f.node.fields
	for _, m := range models {
		if _, ok := m.node.value.(float64); ok { // one price for all models
			models = []namedNode{{name: "*", line: f.line, node: f.node}}
			break
		}
	}
	r.c.Prices = map[string]Price{}
	for _, m := range models {
		var p Price
		if _, ok := m.node.value.(map[string]any); !ok {
			r.addProblem(m.line, field+"."+m.name, "it must be an object")
		}
		for _, e := range m.node.fields {
			to := map[string]*float64{"input": &p.Input, "output": &p.Output, "cache_read": &p.CacheRead, "cache_write": &p.CacheWrite}[e.name]
			v, ok := e.node.value.(float64)
			if to == nil || !ok || v < 0 {
				r.addProblem(e.line, field+"."+m.name+"."+e.name, "a price is a number of US dollars for a million tokens: input, output, cache_read or cache_write")
				continue
			}
			*to = v
		}
		r.c.Prices[m.name] = p
	}
}

func (r *connectorReader) readTimeout(f namedNode, field string) {
	switch v := f.node.value.(type) {
	case float64:
		r.c.Timeout = time.Duration(v * float64(time.Second))
	case string:
		d, err := time.ParseDuration(v)
		if n, nerr := strconv.ParseFloat(v, 64); nerr == nil {
			d, err = time.Duration(n*float64(time.Second)), nil
		}
		if err != nil {
			r.addProblem(f.line, field, "%q is not a time such as 90s or 10m", v)
		}
		r.c.Timeout = d
	default:
		r.addProblem(f.line, field, "it must be a time such as 90s or 10m")
		return
	}
	if r.c.Timeout < 0 {
		r.addProblem(f.line, field, "it must not be negative")
	}
}

// checkConnector checks the connector as a whole.
func (r *connectorReader) checkConnector() {
	if r.api == "" {
		r.addProblem(0, "type", "it is missing: anthropic, openai, responses, gemini or deepseek")
		return
	}
	m, ok := knownAPIOf(strings.ToLower(r.api))
	if !ok {
		r.addProblem(r.line, "type", "%q is not known; there are anthropic, openai, responses, gemini and deepseek", r.api)
		return
	}
	r.c.API = m.api
	if r.c.Base == "" {
		r.c.Base = m.base
	}
	if _, err := dialect.NewTarget(r.c.API, r.c.Base, "", "m", false); err != nil {
		r.addProblem(0, "host", "%v", err)
	}
	if r.c.Model == "" && len(r.c.Models) == 0 {
		r.addProblem(0, "model", "it is missing, and so is models")
	}
}
