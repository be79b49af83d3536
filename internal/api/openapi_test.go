package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/openapi.json"

// openapiOf returns the server's document.
func openapiOf(t *testing.T) (doc map[string]any, text []byte) {
	t.Helper()
	s := newLocal(t, Options{})
	a := s.want(http.StatusOK, &doc, "GET", "/openapi.json", "")
	if got := a.header.Get("Content-Type"); got != "application/openapi+json" {
		t.Errorf("Content-Type %q", got)
	}
	var same map[string]any
	b := s.want(http.StatusOK, nil, "GET", "/openapi.yaml", "")
	if err := yaml.Unmarshal([]byte(b.body), &same); err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	if fmt.Sprint(slices.Sorted(maps.Keys(same["paths"].(map[string]any)))) != fmt.Sprint(slices.Sorted(maps.Keys(doc["paths"].(map[string]any)))) {
		t.Error("the YAML document has other paths than the JSON one")
	}
	return doc, []byte(a.body)
}

// The document is as it was agreed: a change of the API is seen in its review.
func TestOpenAPIGolden(t *testing.T) {
	_, text := openapiOf(t)
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("the API has changed; if it was meant: go test ./internal/api -run OpenAPIGolden -update\n%s", cmp.Diff(string(want), string(text)))
	}
}

// Every operation has all that a person or a generator needs.
func TestOpenAPI(t *testing.T) {
	doc, text := openapiOf(t)
	if doc["openapi"] != "3.1.0" {
		t.Errorf("version %v", doc["openapi"])
	}
	known := make(map[string]bool)
	for _, tag := range doc["tags"].([]any) {
		known[tag.(map[string]any)["name"].(string)] = true
	}
	ids := make(map[string]string)
	n := 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			n++
			where := method + " " + path
			for _, problem := range checkOperation(path, op.(map[string]any), known, ids, where) {
				t.Errorf("%s: %s", where, problem)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d operations", n)
	}
	checkReferences(t, doc, text)
	checkSchemas(t, doc)
}

// checkOperation returns what one operation lacks.
func checkOperation(path string, op map[string]any, tags map[string]bool, ids map[string]string, where string) (problems []string) {
	bad := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	id, _ := op["operationId"].(string)
	if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(id) || ids[id] != "" {
		bad("operationId %q (also of %q)", id, ids[id])
	}
	ids[id] = where
	if s, _ := op["summary"].(string); s == "" || strings.HasSuffix(s, ".") {
		bad("summary %q", s)
	}
	list, _ := op["tags"].([]any)
	if len(list) != 1 || !tags[fmt.Sprint(list[0])] {
		bad("tags %v", op["tags"])
	}
	if s := fmt.Sprint(op["security"]); s != "[map[token:[]]]" {
		bad("security %v", s)
	}
	named := make(map[string]bool)
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		m := p.(map[string]any)
		in, name := fmt.Sprint(m["in"]), fmt.Sprint(m["name"])
		if named[in+name] {
			bad("parameter %s is there twice", name)
		}
		named[in+name] = true
		if in == "path" && m["required"] != true {
			bad("parameter %s of the path is not required", name)
		}
		if m["schema"] == nil {
			bad("parameter %s has no schema", name)
		}
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		if !named["path"+m[1]] {
			bad("parameter %s of the path is not described", m[1])
		}
	}
	responses := op["responses"].(map[string]any)
	good := false
	for status, r := range responses {
		m := r.(map[string]any)
		if m["description"] == "" {
			bad("response %s has no description", status)
		}
		good = good || status[0] == '2' || status == "101"
		if status[0] == '4' || status[0] == '5' {
			if s := fmt.Sprint(m["content"]); !strings.Contains(s, "application/problem+json") || !strings.Contains(s, "schemas/Problem") {
				bad("response %s is %s, not a problem", status, s)
			}
		}
	}
	if !good {
		bad("no good response")
	}
	for _, status := range []string{"400", "401", "403", "429", "500"} {
		if responses[status] == nil {
			bad("response %s is not described", status)
		}
	}
	if strings.Contains(path, "{") && responses["404"] == nil && !strings.HasPrefix(path, "/v1/quotas") && id != "set-pool" {
		bad("response 404 is not described")
	}
	return problems
}

// checkReferences looks for references to nothing, and for schemas that nobody
// refers to.
func checkReferences(t *testing.T, doc map[string]any, text []byte) {
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	used := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"\$ref": "#/components/schemas/(\w+)"`).FindAllSubmatch(text, -1) {
		used[string(m[1])] = true
		if schemas[string(m[1])] == nil {
			t.Errorf("schema %s is referred to, but not there", m[1])
		}
	}
	for name := range schemas {
		if !used[name] {
			t.Errorf("schema %s is there, but nobody refers to it", name)
		}
	}
}

// checkSchemas looks at the form of each schema: types that JSON Schema knows,
// required members that exist.
func checkSchemas(t *testing.T, doc map[string]any) {
	types := []string{"object", "array", "string", "integer", "number", "boolean", "null"}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if m["$ref"] != nil {
			return
		}
		for _, kind := range append([]any{}, flat(m["type"])...) {
			if !slices.Contains(types, fmt.Sprint(kind)) {
				t.Errorf("%s: type %v", at, kind)
			}
		}
		properties, _ := m["properties"].(map[string]any)
		for name, p := range properties {
			walk(at+"."+name, p)
		}
		for _, r := range flat(m["required"]) {
			if properties[fmt.Sprint(r)] == nil {
				t.Errorf("%s: %v is required, but not there", at, r)
			}
		}
		walk(at+"[]", m["items"])
		walk(at+".*", m["additionalProperties"])
	}
	for name, s := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		walk(name, s)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	required := fmt.Sprint(schemas["Info"].(map[string]any)["required"])
	for _, name := range []string{"id", "state", "owner", "config"} {
		if !strings.Contains(required, name) {
			t.Errorf("Info.%s is always there, but not required: %s", name, required)
		}
	}
	if r := schemas["Config"].(map[string]any)["required"]; r != nil {
		t.Errorf("Config requires %v: the zero one is a good one", r)
	}
}

func flat(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

// A document is JSON that says the same when it is read and written again.
func TestOpenAPIIsStable(t *testing.T) {
	_, one := openapiOf(t)
	_, two := openapiOf(t)
	if !bytes.Equal(one, two) {
		t.Error("two servers have two documents")
	}
	if !json.Valid(one) {
		t.Error("not JSON")
	}
}
