package assistant

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// fieldReader decodes the fields of a document and collects all problems.
type fieldReader struct {
	file     string // path for error messages
	env      func(string) (string, bool)
	problems []*Problem
}

// addProblem records a problem at a node.
func (r *fieldReader) addProblem(n *node, field, format string, args ...any) {
	r.problems = append(r.problems, &Problem{File: r.file, Line: n.line, Column: n.column, Field: field, Text: fmt.Sprintf(format, args...)})
}

// checkKind reports whether a node has a kind, and records a problem if not.
func (r *fieldReader) checkKind(n *node, field string, k kind) bool {
	if n.kind == k {
		return true
	}
	r.addProblem(n, field, "must be %s, not %s", k, n.kind)
	return false
}

// valueReader decodes a value; at is the full name of its field.
type valueReader func(n *node, at string)

// readFields decodes an object. Unknown and repeated fields are problems. A nil
// valueReader accepts any value and ignores it.
func (r *fieldReader) readFields(n *node, at string, known map[string]valueReader) {
	if n.kind == aNull || !r.checkKind(n, at, anObject) {
		return
	}
	seen := make(map[string]int)
	for _, f := range n.fields {
		full := joinPath(at, f.name)
		place := &node{line: f.line, column: f.column}
		if line, twice := seen[f.name]; twice {
			r.addProblem(place, full, "is set already in line %d", line)
			continue
		}
		seen[f.name] = f.line
		take, ok := known[f.name]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.addProblem(place, truncateName(full), "unknown field%s; known are: %s", suggest.Hint(f.name, names), strings.Join(names, ", "))
			continue
		}
		if take != nil && f.value.kind != aNull {
			take(f.value, full)
		}
	}
}

func joinPath(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// eachElement returns a reader that applies take to each element of a list.
func (r *fieldReader) eachElement(take valueReader) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, aList) {
			return
		}
		for i, e := range n.list {
			take(e, fmt.Sprintf("%s[%d]", at, i))
		}
	}
}

func (r *fieldReader) textInto(to *string) valueReader {
	return func(n *node, at string) {
		if r.checkKind(n, at, aText) {
			*to = n.text
		}
	}
}

// wordInto returns a reader of one of some words.
func (r *fieldReader) wordInto(to *string, words ...string) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, aText) {
			return
		}
		if !slices.Contains(words, n.text) {
			r.addProblem(n, at, "%q: must be %s%s", n.text, strings.Join(words, ", "), suggest.Hint(n.text, words))
			return
		}
		*to = n.text
	}
}

func (r *fieldReader) textsInto(to *[]string) valueReader {
	return func(n *node, at string) {
		r.eachElement(func(n *node, at string) {
			if r.checkKind(n, at, aText) {
				*to = append(*to, n.text)
			}
		})(n, at)
	}
}

func (r *fieldReader) flagInto(to *bool) valueReader {
	return func(n *node, at string) {
		if r.checkKind(n, at, aFlag) {
			*to = n.text == "true"
		}
	}
}

// positiveInto returns a reader of a number above 0.
func (r *fieldReader) positiveInto(to *float64) valueReader {
	return func(n *node, at string) {
		f, ok := n.parseNumber()
		if n.kind == aText && ok {
			n.kind = aNumber // accept "2.0"
		}
		if !r.checkKind(n, at, aNumber) {
			return
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
			r.addProblem(n, at, "%s: must be a number above 0", n.text)
			return
		}
		*to = f
	}
}

// nonNegativeInto returns a reader of a number of 0 or more.
func (r *fieldReader) nonNegativeInto(to **float64) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, aNumber) {
			return
		}
		f, _ := n.parseNumber()
		if math.IsNaN(f) || f < 0 || f > 1e6 {
			r.addProblem(n, at, "%s: must not be negative", n.text)
			return
		}
		*to = &f
	}
}

// countInto returns a reader of a whole number above 0.
func countInto[T int | int64](r *fieldReader, to *T) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, aNumber) {
			return
		}
		f, _ := n.parseNumber()
		if f != math.Trunc(f) || f <= 0 || f > math.MaxInt32*1e4 {
			r.addProblem(n, at, "%s: must be a whole number above 0", n.text)
			return
		}
		*to = T(f)
	}
}

// sizeInto returns a reader of a number of bytes: "4g", "512m", 1048576.
func (r *fieldReader) sizeInto(to *int64) valueReader {
	return func(n *node, at string) {
		b, ok := parseSize(n.text)
		if n.kind != aText && n.kind != aNumber || !ok {
			r.addProblem(n, at, "must be a size like \"4g\" or \"512m\"%s", describeValue(n))
			return
		}
		*to = b
	}
}

func parseSize(text string) (int64, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(text, "bkmgtie ")
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(text[len(digits):]), "b"), "i")]
	f, err := strconv.ParseFloat(digits, 64)
	f *= float64(int64(1) << shift)
	if err != nil || !ok || math.IsNaN(f) || f < 1 || f > 1<<50 {
		return 0, false
	}
	return int64(f), true
}

// durationInto returns a reader of a duration: "10m", "7d".
func (r *fieldReader) durationInto(to *time.Duration) valueReader {
	return func(n *node, at string) {
		d, ok := parseDuration(n.text)
		if n.kind != aText || !ok {
			r.addProblem(n, at, "must be a time like \"10m\", \"90s\" or \"7d\"%s", describeValue(n))
			return
		}
		*to = d
	}
}

func parseDuration(text string) (time.Duration, bool) {
	days := time.Duration(0)
	if n, rest, ok := strings.Cut(text, "d"); ok {
		i, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, false
		}
		days, text = time.Duration(i)*24*time.Hour, rest
		if text == "" {
			return days, days > 0
		}
	}
	d, err := time.ParseDuration(text)
	return d + days, err == nil && d >= 0 && d+days > 0
}

// describeValue describes a value for the end of an error message.
func describeValue(n *node) string {
	switch n.kind {
	case aText:
		return fmt.Sprintf(", not %q", truncateName(n.text))
	case aNumber, aFlag:
		return ", not " + truncateName(n.text)
	}
	return ", not " + string(n.kind)
}

// schemaInto returns a reader of a JSON schema: any object.
func (r *fieldReader) schemaInto(to *json.RawMessage) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, anObject) {
			return
		}
		b, err := json.Marshal(n.toPlain())
		if err != nil {
			r.addProblem(n, at, "%v", err)
			return
		}
		*to = b
	}
}

// variablesInto returns a reader of texts by name, such as an environment; "$ENV.NAME"
// is replaced by the variable NAME of atoll's environment.
func (r *fieldReader) variablesInto(put func(name, value string)) valueReader {
	return func(n *node, at string) {
		if !r.checkKind(n, at, anObject) {
			return
		}
		for _, f := range n.fields {
			full := joinPath(at, f.name)
			v := f.value
			if v.kind == aNull || v.kind == aList || v.kind == anObject {
				r.addProblem(v, full, "must be text, not %s", v.kind)
				continue
			}
			if f.name == "" || strings.ContainsAny(f.name, "=\x00") || strings.ContainsRune(v.text, 0) {
				r.addProblem(&node{line: f.line, column: f.column}, full, "%q is no name of a variable", truncateName(f.name))
				continue
			}
			text, ok := r.expandVariable(v, full)
			if ok {
				put(f.name, text)
			}
		}
	}
}

// expandVariable returns a text, or the value of the variable that it names.
func (r *fieldReader) expandVariable(n *node, at string) (string, bool) {
	name, ok := strings.CutPrefix(n.text, "$ENV.")
	if !ok {
		return n.text, true
	}
	if r.env != nil {
		if v, ok := r.env(name); ok {
			return v, true
		}
	}
	r.addProblem(n, at, "$ENV.%s: there is no variable %s in the environment of atoll", name, name)
	return "", false
}
