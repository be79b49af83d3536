package assistant

import (
	"fmt"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/atoll-sandbox/atoll"
)

// Limits of the schema of an answer. A caller chooses the schema, and a model the answer: neither may take the server's memory or
// time, and a schema that refers to itself without an end would end the process.
const (
	maxSubschemas    = 5000
	maxSchemaKey     = 256     // bytes of a name in it
	maxPattern       = 1000    // bytes of a regular expression
	maxPatternStates = 20_000  // states of all its regular expressions
	maxInPlace       = 100_000 // subschemas that apply to one value, references followed
	maxCheckSteps    = 2_000_000
	maxAnswerDepth   = 500
)

// schemaLimit bounds the cost of a schema before it is resolved, and of checks before they are made.
type schemaLimit struct {
	root     *jsonschema.Schema
	byPath   map[string]*jsonschema.Schema // by JSON pointer
	states   map[*jsonschema.Schema]int    // of the regular expressions of a subschema
	inPlace  map[*jsonschema.Schema]int    // subschemas that apply to the same value; -1: they are being counted
	allState int
}

// newSchemaLimit returns the limit of a schema, or why it is refused.
func newSchemaLimit(root *jsonschema.Schema) (*schemaLimit, error) {
	g := &schemaLimit{root: root, byPath: make(map[string]*jsonschema.Schema), states: make(map[*jsonschema.Schema]int), inPlace: make(map[*jsonschema.Schema]int)}
	if err := g.register(root, ""); err != nil {
		return nil, err
	}
	for at, s := range g.byPath {
		if s.Ref != "" && g.resolveRef(s.Ref) == nil {
			return nil, fmt.Errorf("%q: there is no %q", at, s.Ref)
		}
		if _, err := g.countInPlace(s); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// register checks a subschema and those below it.
func (g *schemaLimit) register(s *jsonschema.Schema, at string) error {
	switch {
	case s == nil:
		return fmt.Errorf("%q is null", at)
	case len(g.byPath) == maxSubschemas:
		return fmt.Errorf("it has more than %d subschemas", maxSubschemas)
	case at != "" && s.ID != "", s.Anchor != "", s.DynamicAnchor != "", s.DynamicRef != "":
		return fmt.Errorf("%q: $id, $anchor, $dynamicAnchor and $dynamicRef are not supported: refer to subschemas by #/$defs/NAME", at)
	case s.Ref != "" && s.Ref != "#" && !strings.HasPrefix(s.Ref, "#/"):
		return fmt.Errorf("%q: $ref must begin with #/", at)
	}
	g.byPath[at] = s
	if err := g.countStates(s, s.Pattern); err != nil {
		return err
	}
	for pattern := range s.PatternProperties {
		if err := g.countStates(s, pattern); err != nil {
			return err
		}
	}
	var err error
	eachSubschema(s, func(keyword, entry string, sub *jsonschema.Schema) {
		if err == nil && len(entry) > maxSchemaKey {
			err = fmt.Errorf("%q has a name with more than %d bytes", at, maxSchemaKey)
		}
		if err == nil {
			err = g.register(sub, at+"/"+keyword+entry)
		}
	})
	return err
}

// countStates adds the states of a regular expression, which cost memory, and time for each character.
func (g *schemaLimit) countStates(s *jsonschema.Schema, pattern string) error {
	if pattern == "" {
		return nil
	}
	if len(pattern) > maxPattern {
		return fmt.Errorf("a pattern has %d bytes: the limit is %d", len(pattern), maxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	g.states[s] += len(prog.Inst)
	if g.allState += len(prog.Inst); g.allState > maxPatternStates {
		return fmt.Errorf("its patterns are too large: repetitions like x{1000} count")
	}
	return nil
}

// countInPlace returns how many subschemas apply to a value that a schema applies to. It refuses those that apply to themselves.
func (g *schemaLimit) countInPlace(s *jsonschema.Schema) (int, error) {
	switch n := g.inPlace[s]; {
	case n < 0:
		return 0, fmt.Errorf("it refers to itself without an end")
	case n > 0:
		return n, nil
	}
	g.inPlace[s] = -1
	n := 1
	for _, sub := range g.listInPlace(s) {
		more, err := g.countInPlace(sub)
		if err != nil {
			return 0, err
		}
		if n += more; n > maxInPlace {
			return 0, fmt.Errorf("more than %d of its subschemas apply to one value", maxInPlace)
		}
	}
	g.inPlace[s] = n
	return n, nil
}

// listInPlace lists the subschemas that apply to the same value as a schema.
func (g *schemaLimit) listInPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	if target := g.resolveRef(s.Ref); target != nil {
		list = append(list, target)
	}
	eachSubschema(s, func(keyword, _ string, sub *jsonschema.Schema) {
		switch keyword {
		case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			list = append(list, sub)
		}
	})
	return list
}

// resolveRef returns the subschema of a reference; nil: there is none.
func (g *schemaLimit) resolveRef(ref string) *jsonschema.Schema {
	at, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	if plain, err := url.PathUnescape(at); err == nil {
		at = plain
	}
	return g.byPath[at]
}

// eachSubschema calls f with the subschemas of a schema, their keywords, and their places below those as in a JSON pointer: "" or "/name".
func eachSubschema(s *jsonschema.Schema, f func(keyword, entry string, sub *jsonschema.Schema)) {
	for keyword, sub := range map[string]*jsonschema.Schema{
		"items": s.Items, "additionalItems": s.AdditionalItems, "contains": s.Contains, "unevaluatedItems": s.UnevaluatedItems,
		"additionalProperties": s.AdditionalProperties, "propertyNames": s.PropertyNames, "unevaluatedProperties": s.UnevaluatedProperties,
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "contentSchema": s.ContentSchema,
	} {
		if sub != nil {
			f(keyword, "", sub)
		}
	}
	for keyword, list := range map[string][]*jsonschema.Schema{
		"prefixItems": s.PrefixItems, "items": s.ItemsArray, "allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf,
	} {
		for i, sub := range list {
			f(keyword, "/"+strconv.Itoa(i), sub)
		}
	}
	for keyword, all := range map[string]map[string]*jsonschema.Schema{
		"$defs": s.Defs, "definitions": s.Definitions, "dependencies": s.DependencySchemas, "dependentSchemas": s.DependentSchemas,
		"properties": s.Properties, "patternProperties": s.PatternProperties,
	} {
		for key, sub := range all {
			f(keyword, "/"+pointerEscaper.Replace(key), sub)
		}
	}
}

// pointerEscaper escapes names in JSON pointers.
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// answerNode is a value of an answer with the size of its text.
type answerNode struct {
	text   string
	items  []*answerNode
	fields map[string]*answerNode
	size   int
}

// newAnswerNode returns the node of a decoded value, or an error if it is nested too deeply.
func newAnswerNode(v any, depth int) (*answerNode, error) {
	if depth > maxAnswerDepth {
		return nil, fmt.Errorf("%w: it is nested more than %d levels deep", atoll.ErrInvalid, maxAnswerDepth)
	}
	n := &answerNode{size: 8}
	switch v := v.(type) {
	case string:
		n.text, n.size = v, len(v)+8
	case []any:
		for _, e := range v {
			sub, err := newAnswerNode(e, depth+1)
			if err != nil {
				return nil, err
			}
			n.items, n.size = append(n.items, sub), n.size+sub.size
		}
	case map[string]any:
		n.fields = make(map[string]*answerNode, len(v))
		for k, e := range v {
			sub, err := newAnswerNode(e, depth+1)
			if err != nil {
				return nil, err
			}
			n.fields[k], n.size = sub, n.size+len(k)+sub.size
		}
	}
	return n, nil
}

// checkCost returns an error if the check of an answer would take too long, or its explanation too much memory.
func (g *schemaLimit) checkCost(answer any) error {
	n, err := newAnswerNode(answer, 0)
	if err != nil {
		return err
	}
	c := &costCount{limit: g, left: maxCheckSteps}
	c.count(g.root, n)
	if c.left < 0 {
		return fmt.Errorf("%w: it is too large to be checked against this schema", atoll.ErrInvalid)
	}
	return nil
}

// costCount counts the steps of a check: at most as many as are left.
type costCount struct {
	limit *schemaLimit
	left  int
}

// count counts the steps of a check of a value. It follows every alternative, as checks do that fail.
func (c *costCount) count(s *jsonschema.Schema, n *answerNode) {
	if c.left -= 1 + n.size/64 + len(s.Enum); c.left < 0 {
		return
	}
	states := c.limit.states[s]
	c.left -= states * len(n.text) / 100
	for _, sub := range c.limit.listInPlace(s) {
		c.count(sub, n)
	}
	for i, item := range n.items {
		for _, sub := range itemSchemas(s, i) {
			c.count(sub, item)
		}
	}
	for key, value := range n.fields {
		if s.PropertyNames != nil {
			c.count(s.PropertyNames, &answerNode{text: key, size: len(key)})
		}
		c.left -= states * len(key) / 100
		for _, sub := range fieldSchemas(s, key) {
			c.count(sub, value)
		}
		if c.left < 0 {
			return
		}
	}
}

// itemSchemas lists the subschemas that may apply to the item with a number.
func itemSchemas(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	add := func(sub *jsonschema.Schema) {
		if sub != nil {
			list = append(list, sub)
		}
	}
	switch {
	case i < len(s.PrefixItems):
		add(s.PrefixItems[i])
	case i < len(s.ItemsArray):
		add(s.ItemsArray[i])
	default:
		add(s.Items)
		add(s.AdditionalItems)
		if s.Items == nil {
			add(s.UnevaluatedItems)
		}
	}
	add(s.Contains)
	return list
}

// fieldSchemas lists the subschemas that may apply to the field with a name.
func fieldSchemas(s *jsonschema.Schema, key string) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	for _, sub := range s.PatternProperties {
		list = append(list, sub)
	}
	if sub := s.Properties[key]; sub != nil {
		return append(list, sub)
	}
	switch {
	case s.AdditionalProperties != nil:
		list = append(list, s.AdditionalProperties)
	case s.UnevaluatedProperties != nil:
		list = append(list, s.UnevaluatedProperties)
	}
	return list
}
