// Package yq is the command yq: expressions on YAML and JSON, which the jq engine evaluates.
package yq

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: yq [eval|eval-all] [OPTION]... [EXPRESSION] [FILE]...
Evaluate EXPRESSION for each document of YAML or JSON, and print the results
as YAML. Without EXPRESSION, print the documents.

  -i, --inplace          write the result into the first FILE
  -o, --output-format F  yaml, json, props, csv or tsv; -j: json; -y: yaml
  -p, --input-format F   yaml or json (default: by the name of FILE)
  -I, --indent N         spaces of indentation (2); 0 with json: one line
  -P, --prettyPrint      block style for everything
  -r, --unwrapScalar     print strings without quotes (default; -r=false)
  -n, --null-input       evaluate once, without input
  -e, --exit-status      status 1 if there is no result, or null or false
  -N, --no-doc           no --- between documents
      --from-file FILE   read the expression from FILE
  -M, -C, --no-colors, --colors, -v: accepted

The language is that of jq, with .a-b, strenv(NAME), env(NAME), upcase,
downcase, tag, kind, pick(["a"]), omit(["a"]), sort_keys(.), with(PATH; EXPR),
ireduce in eval-all merges, and * as a deep merge. Comments and styles stay
where the value stays. Not supported: style=, comments, anchors as values,
load, xml, toml, --split-exp and --front-matter: use sed or awk for those.
`

// Commands returns yq.
func Commands() []program.Command {
	return []program.Command{{Name: "yq", Short: "process YAML and JSON", Usage: usage, Run: program.FlushOutput(runYq, 1)}}
}

const (
	fromFile rune = 256 + iota
	ignored
	refused
	expressionOption
)

var options = option.Parser{Options: []option.Option{
	{Short: 'i', Long: "inplace"},
	{Long: "in-place", ID: 'i'},
	{Short: 'o', Long: "output-format", Arg: option.Required},
	{Short: 'p', Long: "input-format", Arg: option.Required},
	{Short: 'I', Long: "indent", Arg: option.Required},
	{Short: 'P', Long: "prettyPrint"},
	{Long: "pretty-print", ID: 'P'},
	{Short: 'r', Long: "unwrapScalar", Arg: option.Optional},
	{Long: "raw-output", ID: 'r'},
	{Short: 'n', Long: "null-input"},
	{Short: 'e', Long: "exit-status"},
	{Short: 'N', Long: "no-doc"},
	{Short: 'j', Long: "tojson"},
	{Short: 'y', Long: "yaml-output"},
	{Short: 'Y', ID: 'y'},
	{Long: "from-file", Arg: option.Required, ID: fromFile},
	{Long: "expression", Arg: option.Required, ID: expressionOption},
	{Short: 'c', Long: "compact-output"},
	{Short: 'M', Long: "no-colors"},
	{Short: 'C', Long: "colors"},
	{Short: 'v', Long: "verbose"},
	{Short: 'V', Long: "version"},
	{Short: 'h', Long: "help"},
	{Short: 's', Long: "split-exp", Arg: option.Required, ID: refused},
	{Short: 'f', Long: "front-matter", Arg: option.Required, ID: refused},
	{Short: '0', Long: "nul-output"},
}}

// job is the state of one run of yq.
type job struct {
	p                                   *kernel.Proc
	inPlace, pretty, null, exit, noMark bool
	quoted, all, nul                    bool
	input, output                       string
	indent                              int
	expression                          string
	code                                *jq.Code
	path                                []step // of an expression that is a plain path
	plain                               bool
	out                                 io.Writer
	printed                             bool
	mark                                bool // a --- precedes the next result
	results                             int
	empty                               bool // the last result is null or false
	file                                string
	fileIndex, docIndex                 int
	exploded                            bool // the expression has explode
}

func runYq(p *kernel.Proc) int {
	j := &job{p: p, indent: 2, out: p.Out()}
	args := p.Args
	if len(args) > 1 {
		switch args[1] {
		case "eval", "e", "eval-all", "ea":
			j.all = strings.HasPrefix(args[1], "ea") || args[1] == "eval-all"
			p.Args = append([]string{args[0]}, args[2:]...)
		}
	}
	p.Args = joinValues(p.Args)
	opts, operands, ok := options.Parse(p)
	if !ok {
		return 1
	}
	expression := ""
	for _, o := range opts {
		switch o.Key {
		case 'V':
			_, _ = p.Out().WriteString("yq (atoll; as https://github.com/mikefarah/yq/) version v4.54.2\n") // Flush reports the error
			return 0
		case 'h':
			_, _ = p.Out().WriteString(usage) // likewise
			return 0
		case fromFile:
			b, err := p.ReadFile(o.Value)
			if err != nil {
				return j.fail("open " + o.Value + ": " + reasonOf(err))
			}
			expression = strings.TrimSpace(string(b))
		case expressionOption:
			expression = o.Value
		case refused:
			return j.fail(o.Name + " is not supported here: use -o json and jq, or csplit for documents")
		default:
			if !j.applyOption(o) {
				return 1
			}
		}
	}
	return j.run(expression, operands)
}

// joinValues joins -o=json and -I=0 as yq's options are written: the parser knows -ojson.
func joinValues(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' && a[2] == '=' {
			a = a[:2] + a[3:]
			if strings.HasPrefix(a, "-r") {
				a = "--unwrapScalar=" + a[2:]
			}
		}
		out = append(out, a)
	}
	return out
}

func (j *job) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'i':
		j.inPlace = true
	case 'P':
		j.pretty = true
	case 'n':
		j.null = true
	case 'e':
		j.exit = true
	case 'N':
		j.noMark = true
	case 'r':
		j.quoted = o.Value == "false"
	case '0':
		j.nul = true
	case 'j':
		j.output = "json"
	case 'y':
		j.output = "yaml"
	case 'c':
		j.indent = 0
	case 'o', 'p':
		name, ok := formats[o.Value]
		if !ok || o.Key == 'p' && name != "yaml" && name != "json" {
			j.fail("unknown format '" + o.Value + "': yaml and json are read; yaml, json, props, csv and tsv are written")
			return false
		}
		if o.Key == 'o' {
			j.output = name
		} else {
			j.input = name
		}
	case 'I':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 || n > 9 {
			j.fail("invalid indent '" + o.Value + "': a number from 0 to 9")
			return false
		}
		j.indent = n
	}
	return true
}

var formats = map[string]string{"yaml": "yaml", "y": "yaml", "yml": "yaml", "auto": "", "a": "", "json": "json", "j": "json", "props": "props", "p": "props", "csv": "csv", "c": "csv", "tsv": "tsv", "t": "tsv"}

func (j *job) fail(text string) int {
	_ = j.p.Out().Flush()                                  // the next write reports the error
	_, _ = j.p.Stderr.WriteString("Error: " + text + "\n") // best effort
	return 1
}

func reasonOf(err error) string {
	text := program.Reason(err)
	return strings.ToLower(text[:1]) + text[1:]
}

// run evaluates the expression for the files.
func (j *job) run(expression string, operands []string) int {
	if expression == "" && len(operands) > 0 {
		if _, err := j.p.Lstat(operands[0]); err != nil && operands[0] != "-" || operands[0] == "." || j.null || len(operands) > 1 && !j.isFile(operands[0]) {
			expression, operands = operands[0], operands[1:]
		}
	}
	if expression == "" {
		expression = "."
	}
	if len(operands) > 0 && j.input == "" && strings.HasSuffix(operands[0], ".json") {
		j.input = "json"
		if j.output == "" {
			j.output = "json"
		}
	}
	if j.output == "" {
		j.output = "yaml"
	}
	if err := j.compile(expression); err != nil {
		return j.fail(err.Error())
	}
	if j.inPlace {
		return j.runInPlace(operands)
	}
	code := j.evaluateFiles(operands)
	if code == 0 && j.exit && (j.results == 0 || j.empty) {
		return j.fail("no matches found")
	}
	return code
}

func (j *job) isFile(name string) bool {
	info, err := j.p.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// runInPlace writes the results into the file.
func (j *job) runInPlace(operands []string) int {
	if len(operands) == 0 || j.null {
		return j.fail("write in place flag only applicable when giving an expression and at least one file")
	}
	info, err := j.p.Stat(operands[0])
	if err != nil {
		return j.fail("open " + operands[0] + ": " + reasonOf(err))
	}
	b := &chargedBuffer{p: j.p}
	j.out = b
	if code := j.evaluateFiles(operands); code != 0 {
		return code
	}
	if err := j.p.WriteFile(operands[0], b.b, info.Mode().Perm()); err != nil {
		return j.fail(operands[0] + ": " + reasonOf(err))
	}
	return 0
}

// chargedBuffer collects output, charged to the process.
type chargedBuffer struct {
	p *kernel.Proc
	b []byte
}

func (c *chargedBuffer) Write(b []byte) (int, error) {
	if need := len(c.b) + len(b); need > cap(c.b) {
		size := max(need, 2*cap(c.b))
		c.p.Alloc(int64(size))
		was := cap(c.b)
		c.b = append(make([]byte, 0, size), c.b...)
		c.p.Free(int64(was))
	}
	c.b = append(c.b, b...)
	return len(b), nil
}

// evaluateFiles evaluates the expression for each document of the files.
func (j *job) evaluateFiles(names []string) int {
	if j.null {
		return j.evaluate(nil)
	}
	var docs []*yaml.Node
	for i, name := range stream.OperandsOrStdin(names) {
		j.fileIndex, j.docIndex = i, 0
		h, err := stream.Open(j.p, name)
		if err != nil {
			return j.fail("open " + name + ": " + reasonOf(err))
		}
		text, err := j.p.ReadAll(h)
		stream.Close(h)
		if err != nil {
			return j.fail(name + ": " + reasonOf(err))
		}
		j.file = name
		code := j.eachDocument(name, text, func(doc *yaml.Node) int {
			if j.all {
				docs = append(docs, doc)
				return 0
			}
			defer func() { j.docIndex++ }()
			return j.evaluate(doc)
		})
		if code != 0 {
			return code
		}
	}
	if j.all {
		return j.evaluateAll(docs)
	}
	return 0
}

// Costs of a document in memory, from above.
const (
	byteCost = 12
	nodeCost = 600
)

// eachDocument parses a text and calls f for each document. The memory of the parser is charged before it runs, by the
// characters that can begin a node.
func (j *job) eachDocument(name string, text []byte, f func(*yaml.Node) int) int {
	if j.input == "json" || j.input == "" && strings.EqualFold(path.Ext(name), ".json") {
		return j.eachJSON(name, text, f)
	}
	nodes := 1
	for i, c := range text {
		if i&0xfff == 0 {
			j.p.Tick(64)
		}
		switch c {
		case '[', ']', '{', '}', ',', ':', '-', '\n', '?', '&', '*', '|', '>', '!', '#':
			nodes++
		}
	}
	cost := int64(len(text))*byteCost + int64(nodes)*nodeCost
	j.p.Alloc(cost)
	defer j.p.Free(cost)
	d := yaml.NewDecoder(&tickingReader{j.p, text})
	for n := 0; ; n++ {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			if n == 0 && !j.all {
				return f(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: ""})
			}
			return 0
		}
		if err != nil {
			return j.fail("bad file '" + name + "': " + err.Error())
		}
		if code := f(&doc); code != 0 {
			return code
		}
	}
}

// tickingReader reads a text in pieces, and counts its bytes as work.
type tickingReader struct {
	p    *kernel.Proc
	text []byte
}

func (r *tickingReader) Read(b []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1024)], r.text)
	r.text = r.text[n:]
	r.p.Tick(n)
	return n, nil
}

// eachJSON decodes the values of a JSON text.
func (j *job) eachJSON(name string, text []byte, f func(*yaml.Node) int) int {
	d := jq.NewDecoder(bytes.NewReader(text), j.p)
	for {
		v, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return j.fail("bad file '" + name + "': " + err.Error())
		}
		node := j.newNode(v, 0)
		if node == nil {
			return j.fail("bad file '" + name + "': it is nested too deep")
		}
		if code := f(node); code != 0 {
			return code
		}
	}
}
