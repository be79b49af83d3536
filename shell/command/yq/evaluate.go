package yq

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
)

// prelude defines the functions of yq that jq has not.
const prelude = `def keys: keys_unsorted; def upcase: ascii_upcase; def downcase: ascii_downcase; def to_json: tojson; def from_json: fromjson; def to_number: tonumber; def to_string: tostring;
def tag: if type == "string" then "!!str" elif type == "boolean" then "!!bool" elif type == "null" then "!!null" elif type == "array" then "!!seq" elif type == "object" then "!!map" elif . == floor then "!!int" else "!!float" end;
def kind: if type == "array" then "seq" elif type == "object" then "map" else "scalar" end;
def with(p; f): p |= f; def sort_keys(p): p |= (if type == "object" then to_entries | sort_by(.key) | from_entries else . end);
def pick(ks): . as $o | reduce (ks | if type == "array" then .[] else . end) as $k (if type == "array" then [] else {} end; if ($o | has($k)) then (if type == "array" then . + [$o[$k]] else .[$k] = $o[$k] end) else . end);
def omit(ks): . as $o | reduce (ks | if type == "array" then .[] else . end) as $k (.; del(.[$k]));
def explode(p): .; def filename: input_filename; def document_index: input_line_number % 1048576; def file_index: input_line_number / 1048576 | floor; def fileIndex: file_index; def documentIndex: document_index; def fi: file_index; def di: document_index;
`

// step is a step of a plain path: a key, or an index.
type step struct {
	key   string
	index int
	item  bool
}

var (
	plainStep  = regexp.MustCompile(`^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\.?\["([^"\\]*)"\]|\.?\[(-?[0-9]+)\]|\."([^"\\]*)")`)
	dashedKey  = regexp.MustCompile(`\.([A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z][A-Za-z0-9_]*)+)`)
	envCall    = regexp.MustCompile(`\b(str)?env\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)`)
	mergeAll   = regexp.MustCompile(`^\s*\.\s+as\s+\$(\w+)\s+ireduce\s*\(\s*\{\}\s*;\s*\.\s*\*[+dn?]*\s*\$(\w+)\s*\)\s*$`)
	mergeIndex = regexp.MustCompile(`^\s*select\(\s*(?:fi|fileIndex|file_index)\s*==\s*0\s*\)\s*\*[+dn?]*\s*select\(\s*(?:fi|fileIndex|file_index)\s*==\s*1\s*\)\s*$`)
	subCall    = regexp.MustCompile(`\bsub\(\s*("(?:[^"\\]|\\.)*")\s*,\s*`)
	explode    = regexp.MustCompile(`\bexplode\(`)
	ireduce    = regexp.MustCompile(`^\s*(.+?)\s+as\s+(\$\w+)\s+ireduce\s*\((.*)\)\s*$`)
	unknown    = regexp.MustCompile(`\b(style|lineComment|line_comment|headComment|head_comment|footComment|foot_comment|anchor|alias)\s*=|\b(load|load_str|load_xml)\(|\*[+dn?]+\s|\b(?:to_yaml|from_yaml|to_xml|from_xml|to_props|from_props|shuffle|eval)\b|@(?:yaml|yamld|xml|props)\b`)
)

// parsePath parses an expression that is only a path.
func parsePath(expression string) ([]step, bool) {
	text := strings.TrimSpace(expression)
	if text == "." {
		return nil, true
	}
	var list []step
	for text != "" {
		m := plainStep.FindStringSubmatchIndex(text)
		if m == nil {
			return nil, false
		}
		var s step
		for g, set := range []func(string){
			func(k string) { s.key = k }, func(k string) { s.key = k }, func(k string) { s.index, _ = strconv.Atoi(k); s.item = true }, func(k string) { s.key = k },
		} {
			if m[2*g+2] >= 0 {
				set(text[m[2*g+2]:m[2*g+3]])
			}
		}
		list, text = append(list, s), text[m[1]:]
	}
	return list, true
}

// compile compiles an expression.
func (j *job) compile(expression string) error {
	j.expression, j.exploded = expression, explode.MatchString(expression)
	if j.all {
		if mergeAll.MatchString(expression) || mergeIndex.MatchString(expression) {
			expression = "reduce .[] as $i ({}; . * $i)"
		} else if strings.Contains(expression, "ireduce") || strings.Contains(expression, "fileIndex") {
			return errors.New("this expression is not supported with eval-all: a merge is `. as $item ireduce ({}; . * $item)`; for others use yq -o json FILE... | jq -s")
		} else {
			expression = ".[] | " + expression
		}
	} else if j.path, j.plain = parsePath(expression); j.plain {
		expression = "."
	}
	if m := unknown.FindString(expression); m != "" {
		return errors.New("'" + strings.TrimSpace(m) + "' is not supported here: use sed for comments and styles, * for merges, and -o json with jq for the rest")
	}
	if m := ireduce.FindStringSubmatch(expression); m != nil {
		expression = "reduce " + m[1] + " as " + m[2] + " (" + m[3] + ")"
	}
	expression = envCall.ReplaceAllStringFunc(expression, func(call string) string {
		m := envCall.FindStringSubmatch(call)
		if m[1] == "str" {
			return "($ENV." + m[2] + " // \"\")"
		}
		return "($ENV." + m[2] + " // \"\" | (fromjson? // .))"
	})
	expression = subCall.ReplaceAllString(expression, "gsub($1; ")
	expression = dashedKey.ReplaceAllString(expression, `."$1"`)
	cfg := &jq.Config{Budget: j.p, Host: jq.Host{
		Environ: j.p.Env, Zone: datetime.LocalZone(j.p),
		Input: func() (jq.Value, bool, error) { return nil, false, nil }, Filename: func() jq.Value { return j.file }, Line: func() int { return j.fileIndex<<20 + j.docIndex },
		AppendItems: true,
		Debug:       func(jq.Value) {}, Stderr: func(jq.Value) {},
		Now: func() (int64, int) { t := j.p.Now(); return t.Unix(), t.Nanosecond() },
	}, Modules: func(string) (string, bool) { return "", false }}
	code, err := jq.Compile(prelude+expression, cfg)
	j.code = code
	return err
}

// follow returns the node at the plain path; nil: there is none.
func (j *job) follow(n *yaml.Node) (*yaml.Node, error) {
	if n.Kind == yaml.DocumentNode {
		if len(j.path) == 0 {
			return n, nil
		}
		if len(n.Content) == 0 {
			return nil, nil
		}
		n = n.Content[0]
	}
	for _, s := range j.path {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch {
		case n.Kind == yaml.MappingNode:
			next = j.findKey(n, s, 0)
		case n.Kind == yaml.SequenceNode && s.item:
			if s.index < 0 {
				s.index += len(n.Content)
			}
			if s.index >= 0 && s.index < len(n.Content) {
				next = n.Content[s.index]
			}
		case n.Kind == yaml.SequenceNode:
			return nil, errors.New("cannot index array with '" + s.key + "' (strconv.ParseInt: parsing \"" + s.key + "\": invalid syntax)")
		}
		if next == nil {
			return nil, nil
		}
		n = next
	}
	return n, nil
}

// findKey returns the value of a key, also through merge keys.
func (j *job) findKey(n *yaml.Node, s step, depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	key := s.key
	if s.item {
		key = strconv.Itoa(s.index)
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			if found := j.findKey(c, s, depth+1); found != nil {
				return found
			}
		}
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		j.p.Tick(1)
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			if found := j.findKey(n.Content[i+1], s, depth+1); found != nil {
				return found
			}
		}
	}
	return nil
}

// evaluate evaluates the expression for a document, and prints the results. A nil document is null.
func (j *job) evaluate(doc *yaml.Node) int {
	j.mark = j.printed && !j.noMark && j.output == "yaml"
	if j.plain && doc != nil {
		n, err := j.follow(doc)
		if err != nil {
			return j.fail(err.Error())
		}
		if n == nil {
			n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
		}
		return j.printNode(n)
	}
	var input jq.Value
	if doc != nil {
		if j.exploded {
			before := j.p.Charged()
			doc = j.explode(doc, 0)
			defer j.p.Free(j.p.Charged() - before)
			if doc == nil {
				return j.fail("the document is nested too deep")
			}
		}
		var ok bool
		if input, ok = j.newValue(doc, 0); !ok {
			return j.fail("the document is nested too deep")
		}
	}
	if j.plain {
		return j.printNode(scalarNode(nil))
	}
	return j.runCode(input, doc)
}

// explode returns a node with copies in the place of aliases, and the keys of merges; nil: it is nested too deep.
func (j *job) explode(n *yaml.Node, depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return j.explode(n.Alias, depth+1)
	}
	j.p.Tick(1)
	j.p.Alloc(nodeCost/2 + 8*int64(len(n.Content)))
	c := *n
	c.Anchor, c.Content = "", nil
	own := map[string]bool{}
	if n.Kind == yaml.MappingNode {
		j.p.Alloc(64 * int64(len(n.Content)))
		for i := 0; i+1 < len(n.Content); i += 2 {
			own[n.Content[i].Value] = !isMerge(n.Content[i])
		}
	}
	for i := 0; i < len(n.Content); i++ {
		if n.Kind == yaml.MappingNode && i%2 == 0 && i+1 < len(n.Content) && isMerge(n.Content[i]) {
			if i++; !j.explodeMerge(&c, n.Content[i], own, depth+1) {
				return nil
			}
			continue
		}
		child := j.explode(n.Content[i], depth+1)
		if child == nil {
			return nil
		}
		c.Content = append(c.Content, child)
	}
	return &c
}

// explodeMerge appends the keys that a merge brings to a mapping, without those that it has.
func (j *job) explodeMerge(to, from *yaml.Node, own map[string]bool, depth int) bool {
	from = j.explode(from, depth)
	if from == nil {
		return false
	}
	if from.Kind == yaml.SequenceNode {
		for _, one := range from.Content {
			if !j.explodeMerge(to, one, own, depth+1) {
				return false
			}
		}
		return true
	}
	for i := 0; i+1 < len(from.Content); i += 2 {
		if key := from.Content[i]; !own[key.Value] {
			own[key.Value] = true
			to.Content = append(to.Content, key, from.Content[i+1])
		}
	}
	return true
}

// evaluateAll evaluates the expression for all documents together.
func (j *job) evaluateAll(docs []*yaml.Node) int {
	list := jq.NewArray()
	for i, d := range docs {
		if j.exploded {
			if d = j.explode(d, 0); d == nil {
				return j.fail("a document is nested too deep")
			}
			docs[i] = d
		}
		v, ok := j.newValue(d, 0)
		if !ok {
			return j.fail("a document is nested too deep")
		}
		list.Items = append(list.Items, v)
	}
	var first *yaml.Node
	if len(docs) > 0 {
		first = docs[0]
	}
	return j.runCode(list, first)
}

// runCode runs the compiled expression, and prints the results.
func (j *job) runCode(input jq.Value, doc *yaml.Node) int {
	var results []jq.Value
	run := j.code.Run(input)
	for {
		v, ok, err := run.Next()
		if err != nil {
			return j.fail(err.Error())
		}
		if !ok {
			break
		}
		j.p.Alloc(16)
		results = append(results, v)
	}
	for _, v := range results {
		node := (*yaml.Node)(nil)
		if doc != nil && len(results) == 1 && doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && sameKind(doc.Content[0], v) {
			if root := j.reconcile(doc.Content[0], v, 0); root != nil {
				copied := *doc
				copied.Content = []*yaml.Node{root}
				node = &copied
			}
		} else {
			node = j.newNode(v, 0)
		}
		if node == nil {
			return j.fail("the result is nested too deep")
		}
		if code := j.printNode(node); code != 0 {
			return code
		}
	}
	return 0
}

func sameKind(n *yaml.Node, v jq.Value) bool {
	switch v.(type) {
	case *jq.Object:
		return n.Kind == yaml.MappingNode
	case *jq.Array:
		return n.Kind == yaml.SequenceNode
	}
	return false
}
