package yq

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

func (j *job) write(text string) { _, _ = io.WriteString(j.out, text) } // Flush reports the error

// printNode prints a result.
func (j *job) printNode(n *yaml.Node) int {
	if j.mark {
		j.write("---\n")
	}
	j.results++
	j.printed, j.mark = true, false
	top := n
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		top = n.Content[0]
	}
	for top.Kind == yaml.AliasNode && top == n {
		copied := *top.Alias
		copied.Anchor = ""
		top, n = &copied, &copied
	}
	tag := top.ShortTag()
	j.empty = top.Kind == yaml.ScalarNode && (tag == "!!null" || tag == "!!bool" && top.Value == "false")
	if j.output != "yaml" {
		v, ok := j.newValue(n, 0)
		if !ok {
			return j.fail("the result is nested too deep")
		}
		return j.printValue(v)
	}
	end := "\n"
	if j.nul {
		end = "\x00"
	}
	if top.Kind == yaml.ScalarNode && !j.quoted && !j.inPlace {
		text := top.Value
		if top.LineComment != "" && n.Kind == yaml.DocumentNode {
			text += " " + top.LineComment
		}
		j.write(text + end)
		return 0
	}
	if j.pretty {
		j.resetStyle(n, 0)
	}
	return j.dump(n)
}

// resetStyle gives block style to everything below a node.
func (j *job) resetStyle(n *yaml.Node, depth int) {
	if depth > maxDepth {
		return
	}
	j.p.Tick(1)
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	} else if n.Kind != yaml.AliasNode && len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		j.resetStyle(c, depth+1)
	}
}

// dump writes a node as YAML.
func (j *job) dump(n *yaml.Node) int {
	indent := j.indent
	if indent < 2 {
		indent = 2
	}
	d, err := yaml.NewDumper(&tickingWriter{j.p, j.out}, yaml.WithV3Defaults(), yaml.WithIndent(indent), yaml.WithLineWidth(-1))
	if err == nil {
		if err = d.Dump(n); err == nil {
			err = d.Close()
		}
	}
	if err != nil {
		return j.fail(err.Error())
	}
	return 0
}

// tickingWriter counts the bytes that are written as work.
type tickingWriter struct {
	p *kernel.Proc
	w io.Writer
}

func (t *tickingWriter) Write(b []byte) (int, error) {
	t.p.Tick(1 + len(b)>>2)
	return t.w.Write(b)
}

// printValue prints a value in a format other than YAML.
func (j *job) printValue(v jq.Value) int {
	switch j.output {
	case "json":
		if s, ok := v.(string); ok && !j.quoted && !j.inPlace && j.indent < 0 {
			j.write(s + "\n")
			return 0
		}
		if err := j.code.Encoder(j.out, jq.Format{Indent: strings.Repeat(" ", j.indent)}).Encode(v); err != nil {
			return j.fail(err.Error())
		}
		j.write("\n")
	case "props":
		j.printProps("", v)
	default:
		return j.printTable(v)
	}
	return 0
}

func (j *job) printProps(prefix string, v jq.Value) {
	j.p.Tick(1)
	join := func(key string) string {
		if prefix == "" {
			return key
		}
		return prefix + "." + key
	}
	switch v := v.(type) {
	case *jq.Object:
		for _, e := range v.Entries() {
			j.printProps(join(e.Key), e.Value)
		}
	case *jq.Array:
		for i, item := range v.Items {
			j.printProps(join(strconv.Itoa(i)), item)
		}
	default:
		j.write(prefix + " = " + strings.ReplaceAll(textOf(v), "\n", `\n`) + "\n")
	}
}

func textOf(v jq.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	}
	return numberText(v)
}

// printTable prints rows: an array of arrays, or of objects, whose keys are the header.
func (j *job) printTable(v jq.Value) int {
	rows, ok := v.(*jq.Array)
	if !ok {
		return j.fail("csv and tsv need an array of arrays or of objects: this is " + fmt.Sprintf("a %s", scalarNode(v).Tag))
	}
	if len(rows.Items) > 0 {
		_, object := rows.Items[0].(*jq.Object)
		if _, array := rows.Items[0].(*jq.Array); !object && !array {
			rows = jq.NewArray(rows)
		}
	}
	w := csv.NewWriter(j.out)
	if j.output == "tsv" {
		w.Comma = '\t'
	}
	var header []string
	for i, row := range rows.Items {
		j.p.Tick(1)
		var fields []string
		switch row := row.(type) {
		case *jq.Array:
			for _, item := range row.Items {
				fields = append(fields, textOf(item))
			}
		case *jq.Object:
			if i == 0 {
				for _, e := range row.Entries() {
					header = append(header, e.Key)
				}
				_ = w.Write(header) // Error reports it
			}
			for _, key := range header {
				cell, _ := row.Get(key)
				fields = append(fields, textOf(cell))
			}
		}
		_ = w.Write(fields) // Error reports it
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return j.fail(err.Error())
	}
	return 0
}
