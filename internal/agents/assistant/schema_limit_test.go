package assistant

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// doublingSchema returns a schema whose n definitions each refer to the next one twice, within a keyword.
func doublingSchema(n int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		sub := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&b, `"a%d":{"allOf":[%s,%s]},`, i, strings.ReplaceAll(keyword, "X", sub), strings.ReplaceAll(keyword, "X", sub))
	}
	fmt.Fprintf(&b, `"a%d":{}}}`, n)
	return b.String()
}

// TestHostileSchemas refuses schemas that would end the server, or take its time or memory.
func TestHostileSchemas(t *testing.T) {
	for name, raw := range map[string]string{
		"refers to itself":               `{"$ref":"#"}`,
		"refers to itself in two steps":  `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`,
		"refers to itself by no name":    `{"$ref":"#/properties/","properties":{"":{"$ref":"#/properties/"}}}`,
		"refers to itself by an anchor":  `{"$ref":"#a","$anchor":"a"}`,
		"refers to itself by an id":      `{"allOf":[{"$id":"http://a/","$ref":"#"}]}`,
		"refers to itself dynamically":   `{"$dynamicAnchor":"a","$dynamicRef":"#a"}`,
		"refers to itself by odd cases":  `{"ALLOF":[{"$REF":"#"}]}`,
		"refers to itself if it depends": `{"dependencies":{"a":{"$ref":"#"}}}`,
		"refers to nothing":              `{"$ref":"#/$defs/a"}`,
		"refers to a file":               `{"$ref":"file:///etc/passwd"}`,
		"doubles":                        doublingSchema(40, "X"),
		"is deep":                        strings.Repeat(`{"not":`, 9000) + "{}" + strings.Repeat("}", 9000),
		"has large patterns":             `{"pattern":"` + strings.Repeat(`[a-z]{1000}`, 2500) + `"}`,
		"has many patterns":              `{"patternProperties":{` + strings.TrimSuffix(strings.Repeat(`"[a-z]{1000}[0-9]{1000}":{},`, 1)+`"x{900}y{900}z{900}":{},"`+strings.Repeat("a{1000}", 100)+`":{}`, ",") + `}}`,
		"has a long name":                `{"properties":{"` + strings.Repeat("n", 100_000) + `":{"properties":{"a":{},"b":{}}}}}`,
		"has many subschemas":            `{"anyOf":[` + strings.Repeat(`{},`, 20_000) + `{}]}`,
		"has null":                       `{"properties":{"a":null}}`,
	} {
		if _, err := compileSchema([]byte(raw)); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("a schema that %s: %v", name, err)
		}
	}
}

// TestCostOfAnswers refuses answers whose check would take long, before it begins.
func TestCostOfAnswers(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, c := range []struct{ name, schema, answer string }{
		{"nested alternatives", `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep(60)},
		{"deep", `{"properties":{"a":{"$ref":"#"}}}`, deep(5000)},
		{"a pattern", `{"pattern":"^(a?){900}(a){900}$"}`, `"` + strings.Repeat("a", 1<<20) + `"`},
		{"explanations", `{"anyOf":[` + strings.Repeat(`{"type":"number"},`, 4000) + `{"type":"number"}]}`, `"` + strings.Repeat("a", 1<<20) + `"`},
	} {
		s, err := compileSchema([]byte(c.schema))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, err := s.parseAnswer(c.answer); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestUsualSchemas follows schemas as libraries make them.
func TestUsualSchemas(t *testing.T) {
	tree := `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://example.com/tree","$ref":"#/definitions/node","definitions":{"node":{
		"type":"object","required":["name"],"additionalProperties":false,
		"properties":{"name":{"type":"string","pattern":"^[a-z]+$"},"children":{"type":"array","items":{"$ref":"#/definitions/node"}},"kind":{"enum":["a","b"]}}}}}`
	pydantic := `{"$defs":{"Step":{"type":"object","properties":{"n":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/Step"},{"type":"null"}],"default":null}},"required":["n"]}},
		"type":"object","properties":{"steps":{"type":"array","items":{"$ref":"#/$defs/Step"}}},"required":["steps"]}`
	many := `{"steps":[` + strings.Repeat(`{"n":1,"next":{"n":2,"next":null}},`, 20_000) + `{"n":3}]}`
	for _, c := range []struct{ schema, answer, want string }{
		{tree, `{"name":"a","children":[{"name":"b","children":[{"name":"c"}]}]}`, ""},
		{tree, `{"name":"a","children":[{"name":"b","children":[{"name":"C"}]}]}`, "pattern"},
		{pydantic, many, ""},
		{pydantic, `{"steps":[{"n":"1"}]}`, "type"},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`, `{"b":1}`, "type"},
		{`true`, "```json\n{\"x\":[1,2]}\n```", ""},
	} {
		s, err := compileSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%.60s: %v", c.schema, err)
			continue
		}
		_, err = s.parseAnswer(c.answer)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s with %.60s: %v, want %q", c.schema, c.answer, err, c.want)
		}
	}
	s, err := compileSchema([]byte(`{"type":"number"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.parseAnswer(`"` + strings.Repeat("é", 100_000) + `"`)
	if err == nil || len(explainAnswer(err)) > 3000 {
		t.Errorf("the explanation of a long answer has %d bytes", len(explainAnswer(err)))
	}
}
