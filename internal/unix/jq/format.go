package jq

import (
	"encoding/base32"
	"encoding/base64"
	"strings"
)

// formats are the functions of the @names.
var formats = map[string]func(*machine, Value) (string, error){
	"text":    func(m *machine, v Value) (string, error) { return m.toText(v), nil },
	"json":    func(m *machine, v Value) (string, error) { return m.toJSON(v), nil },
	"csv":     (*machine).csv,
	"tsv":     (*machine).tsv,
	"html":    func(m *machine, v Value) (string, error) { return m.escapeText(htmlEscapes, v), nil },
	"uri":     (*machine).uri,
	"urid":    (*machine).uriDecode,
	"sh":      (*machine).shell,
	"base64":  (*machine).base64,
	"base64d": (*machine).base64Decode,
	"base32":  (*machine).base32,
	"base32d": (*machine).base32Decode,
}

var (
	htmlEscapes  = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", "'", "&apos;", `"`, "&quot;")
	tsvEscapes   = strings.NewReplacer("\t", `\t`, "\n", `\n`, "\r", `\r`, `\`, `\\`)
	quoteEscapes = strings.NewReplacer(`"`, `""`)
	shellEscapes = strings.NewReplacer("'", `'\''`)
)

// format implements format/1.
func (m *machine) format(in Value, args []Value) (Value, error) {
	name, ok := args[0].(string)
	if !ok {
		return nil, failf("%s is not a valid format", m.kindAndText(args[0]))
	}
	f, ok := formats[name]
	if !ok {
		return nil, failf("%s is not a valid format", name)
	}
	return f(m, in)
}

// doText executes opText: it joins words and formatted values.
func (m *machine) doText(in *instr) action {
	t := in.x.(*text)
	name := t.format
	if name == "" {
		name = "text"
	}
	f, ok := formats[name]
	if !ok {
		return m.unwindWith(failf("%s is not a valid format", name))
	}
	var b strings.Builder
	for i := range t.exprs {
		s, err := f(m, m.pop())
		if err != nil {
			return m.unwindWith(err)
		}
		m.alloc(int64(len(t.words[i]) + len(s)))
		b.WriteString(t.words[i])
		b.WriteString(s)
	}
	b.WriteString(t.words[len(t.words)-1])
	m.tick(b.Len() >> 6)
	m.replaceTop(b.String())
	return goOn
}

// escapeText returns the text of v with replacements.
func (m *machine) escapeText(r *strings.Replacer, v Value) string {
	return m.replaceAll(r, m.toText(v))
}

// replaceAll returns s with replacements of single bytes and charges the result.
func (m *machine) replaceAll(r *strings.Replacer, s string) string {
	const piece = 1 << 16
	if len(s) <= piece {
		m.alloc(int64(len(s)))
		m.tick(len(s) >> 4)
		out := r.Replace(s)
		m.alloc(int64(len(out) - len(s)))
		return out
	}
	var b strings.Builder
	for s != "" {
		part := s[:min(len(s), piece)]
		s = s[len(part):]
		m.tick(piece >> 4)
		part = r.Replace(part)
		if n := len(part) + len(s); b.Cap()-b.Len() < len(part) {
			m.alloc(int64(b.Cap() + n)) // it grows to twice its size and n
			b.Grow(n)
		}
		b.WriteString(part)
	}
	return b.String()
}

// formatRow formats an array item by item, with sep between the items.
func (m *machine) formatRow(v Value, kind, sep string, item func(Value) (string, error)) (string, error) {
	a, ok := v.(*Array)
	if !ok {
		return "", failf("%s cannot be %s-formatted, only array", m.kindAndText(v), kind)
	}
	var b strings.Builder
	for i, v := range a.Items {
		if i > 0 {
			b.WriteString(sep)
		}
		s, err := item(v)
		if err != nil {
			return "", err
		}
		m.alloc(int64(len(s) + len(sep)))
		m.tick(1)
		b.WriteString(s)
	}
	return b.String(), nil
}

// csv implements @csv.
func (m *machine) csv(v Value) (string, error) {
	return m.formatRow(v, "csv", ",", func(v Value) (string, error) {
		if s, ok := v.(string); ok {
			return `"` + m.replaceAll(quoteEscapes, s) + `"`, nil
		}
		return m.plainCell(v)
	})
}

// tsv implements @tsv.
func (m *machine) tsv(v Value) (string, error) {
	return m.formatRow(v, "tsv", "\t", func(v Value) (string, error) {
		if s, ok := v.(string); ok {
			return m.replaceAll(tsvEscapes, s), nil
		}
		return m.plainCell(v)
	})
}

// plainCell formats a cell that is not a string.
func (m *machine) plainCell(v Value) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case *Array, *Object:
		return "", failf("%s is not valid in a csv row", m.kindAndText(v))
	}
	return m.toJSON(v), nil
}

// shell implements @sh.
func (m *machine) shell(v Value) (string, error) {
	a, ok := v.(*Array)
	if !ok {
		a = NewArray(v)
	}
	return m.formatRow(a, "sh", " ", func(v Value) (string, error) {
		switch v := v.(type) {
		case *Array, *Object:
			return "", failf("%s can not be escaped for shell", m.kindAndText(v))
		case string:
			return "'" + m.replaceAll(shellEscapes, v) + "'", nil
		}
		return m.toJSON(v), nil
	})
}

// uri implements @uri.
func (m *machine) uri(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(3 * int64(len(s)))
	m.tick(len(s) / 4)
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isNameByte(c) || c == '-' || c == '.' || c == '~' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte("0123456789ABCDEF"[c>>4])
		b.WriteByte("0123456789ABCDEF"[c&15])
	}
	return b.String(), nil
}

// uriDecode implements @urid.
func (m *machine) uriDecode(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(int64(len(s)))
	m.tick(len(s) / 4)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", failf("%s is not a valid uri encoding", m.kindAndText(v))
		}
		r, ok := hex4([]byte{'0', '0', s[i+1], s[i+2]})
		if !ok {
			return "", failf("%s is not a valid uri encoding", m.kindAndText(v))
		}
		b.WriteByte(byte(r))
		i += 2
	}
	return validText(b.String()), nil
}

// base64 implements @base64.
func (m *machine) base64(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(2 * int64(len(s)))
	m.tick(len(s) >> 5)
	return base64.StdEncoding.EncodeToString([]byte(s)), nil
}

// base64Decode implements @base64d; the padding is optional.
func (m *machine) base64Decode(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(int64(len(s)))
	m.tick(len(s) >> 4)
	body := strings.TrimRight(s, "=")
	if len(body) == 1 || len(body)%4 == 1 && len(body) < 4 {
		return "", failf("%s trailing base64 byte found", m.kindAndText(v))
	}
	out, err := base64.RawStdEncoding.DecodeString(body[:len(body)-boolToInt(len(body)%4 == 1)])
	if err != nil {
		return "", failf("%s is not valid base64 data", m.kindAndText(v))
	}
	if len(body)%4 == 1 {
		return "", failf("%s trailing base64 byte found", m.kindAndText(v))
	}
	return validText(string(out)), nil
}

// boolToInt returns 1 for true and 0 for false.
func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// base32 implements @base32.
func (m *machine) base32(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(2 * int64(len(s)))
	m.tick(len(s) >> 5)
	return base32.StdEncoding.EncodeToString([]byte(s)), nil
}

// base32Decode implements @base32d; the padding is optional.
func (m *machine) base32Decode(v Value) (string, error) {
	s := m.toText(v)
	m.alloc(int64(len(s)))
	m.tick(len(s) >> 4)
	out, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return "", failf("%s is not valid base32 data", m.kindAndText(v))
	}
	return validText(string(out)), nil
}
