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

	"github.com/atoll-sandbox/atoll/internal/spell"
)

// reader reads the fields of a document and collects all that is wrong.
type reader struct {
	file     string // as people call it
	env      func(string) (string, bool)
	problems []*Problem
}

// bad notes a problem at a node.
func (r *reader) bad(n *node, field, format string, args ...any) {
	r.problems = append(r.problems, &Problem{File: r.file, Line: n.line, Column: n.column, Field: field, Text: fmt.Sprintf(format, args...)})
}

// want reports whether a node is of a kind, and notes if it is not.
func (r *reader) want(n *node, field string, k kind) bool {
	if n.kind == k {
		return true
	}
	r.bad(n, field, "must be %s, not %s", k, n.kind)
	return false
}

// read takes a value; at is the full name of its field.
type read func(n *node, at string)

// fields reads an object; a field that is not among them is a mistake, and so
// is one that is there twice. A nil read takes what it is.
func (r *reader) fields(n *node, at string, known map[string]read) {
	if n.kind == aNull || !r.want(n, at, anObject) {
		return
	}
	seen := make(map[string]int)
	for _, f := range n.fields {
		full := joined(at, f.name)
		place := &node{line: f.line, column: f.column}
		if line, twice := seen[f.name]; twice {
			r.bad(place, full, "is there already, in line %d", line)
			continue
		}
		seen[f.name] = f.line
		take, ok := known[f.name]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.bad(place, short(full), "there is no such field%s; there is: %s", spell.Hint(f.name, names), strings.Join(names, ", "))
			continue
		}
		if take != nil && f.value.kind != aNull {
			take(f.value, full)
		}
	}
}

func joined(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// each reads the elements of a list.
func (r *reader) each(take read) read {
	return func(n *node, at string) {
		if !r.want(n, at, aList) {
			return
		}
		for i, e := range n.list {
			take(e, fmt.Sprintf("%s[%d]", at, i))
		}
	}
}

func (r *reader) text(to *string) read {
	return func(n *node, at string) {
		if r.want(n, at, aText) {
			*to = n.text
		}
	}
}

// word is one of some texts.
func (r *reader) word(to *string, words ...string) read {
	return func(n *node, at string) {
		if !r.want(n, at, aText) {
			return
		}
		if !slices.Contains(words, n.text) {
			r.bad(n, at, "%q: must be %s%s", n.text, strings.Join(words, ", "), spell.Hint(n.text, words))
			return
		}
		*to = n.text
	}
}

func (r *reader) texts(to *[]string) read {
	return func(n *node, at string) {
		r.each(func(n *node, at string) {
			if r.want(n, at, aText) {
				*to = append(*to, n.text)
			}
		})(n, at)
	}
}

func (r *reader) flag(to *bool) read {
	return func(n *node, at string) {
		if r.want(n, at, aFlag) {
			*to = n.text == "true"
		}
	}
}

// amount is a number above 0.
func (r *reader) amount(to *float64) read {
	return func(n *node, at string) {
		f, ok := n.number()
		if n.kind == aText && ok {
			n.kind = aNumber // "2.0": people write it
		}
		if !r.want(n, at, aNumber) {
			return
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
			r.bad(n, at, "%s: must be a number above 0", n.text)
			return
		}
		*to = f
	}
}

// fraction is a number of 0 or more.
func (r *reader) fraction(to **float64) read {
	return func(n *node, at string) {
		if !r.want(n, at, aNumber) {
			return
		}
		f, _ := n.number()
		if math.IsNaN(f) || f < 0 || f > 1e6 {
			r.bad(n, at, "%s: must not be negative", n.text)
			return
		}
		*to = &f
	}
}

// count is a whole number above 0.
func count[T int | int64](r *reader, to *T) read {
	return func(n *node, at string) {
		if !r.want(n, at, aNumber) {
			return
		}
		f, _ := n.number()
		if f != math.Trunc(f) || f <= 0 || f > math.MaxInt32*1e4 {
			r.bad(n, at, "%s: must be a whole number above 0", n.text)
			return
		}
		*to = T(f)
	}
}

// size is a number of bytes: "4g", "512m", 1048576.
func (r *reader) size(to *int64) read {
	return func(n *node, at string) {
		b, ok := parseSize(n.text)
		if n.kind != aText && n.kind != aNumber || !ok {
			r.bad(n, at, "must be a size like \"4g\" or \"512m\"%s", what(n))
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

// span is a time: "10m", "7d".
func (r *reader) span(to *time.Duration) read {
	return func(n *node, at string) {
		d, ok := parseSpan(n.text)
		if n.kind != aText || !ok {
			r.bad(n, at, "must be a time like \"10m\", \"90s\" or \"7d\"%s", what(n))
			return
		}
		*to = d
	}
}

func parseSpan(text string) (time.Duration, bool) {
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

// what says what is there instead.
func what(n *node) string {
	switch n.kind {
	case aText:
		return fmt.Sprintf(", not %q", short(n.text))
	case aNumber, aFlag:
		return ", not " + short(n.text)
	}
	return ", not " + string(n.kind)
}

// schema is a JSON schema: an object as it is.
func (r *reader) schema(to *json.RawMessage) read {
	return func(n *node, at string) {
		if !r.want(n, at, anObject) {
			return
		}
		b, err := json.Marshal(n.plain())
		if err != nil {
			r.bad(n, at, "%v", err)
			return
		}
		*to = b
	}
}

// named are texts by name, such as an environment; "$ENV.NAME" is what NAME is
// in atoll's own.
func (r *reader) named(put func(name, value string)) read {
	return func(n *node, at string) {
		if !r.want(n, at, anObject) {
			return
		}
		for _, f := range n.fields {
			full := joined(at, f.name)
			v := f.value
			if v.kind == aNull || v.kind == aList || v.kind == anObject {
				r.bad(v, full, "must be text, not %s", v.kind)
				continue
			}
			if f.name == "" || strings.ContainsAny(f.name, "=\x00") || strings.ContainsRune(v.text, 0) {
				r.bad(&node{line: f.line, column: f.column}, full, "%q is no name of a variable", short(f.name))
				continue
			}
			text, ok := r.expanded(v, full)
			if ok {
				put(f.name, text)
			}
		}
	}
}

// expanded is a text, or what the environment has for it.
func (r *reader) expanded(n *node, at string) (string, bool) {
	name, ok := strings.CutPrefix(n.text, "$ENV.")
	if !ok {
		return n.text, true
	}
	if r.env != nil {
		if v, ok := r.env(name); ok {
			return v, true
		}
	}
	r.bad(n, at, "$ENV.%s: there is no variable %s in the environment of atoll", name, name)
	return "", false
}
