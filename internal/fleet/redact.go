package fleet

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// hidden stands where a secret was.
const hidden = "***"

// minSecret is the length of the shortest value that is hidden: what is
// shorter, or one of plain, would make every text unreadable and protect
// nothing.
const minSecret = 4

// plain are values that are no secrets, whatever they are called.
var plain = []string{"true", "false", "none", "null"}

// telling are parts of the names of environment variables that hold secrets.
var telling = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "KEY", "PRIVATE", "AUTH", "COOKIE", "SIGNATURE"}

// secretName reports whether an environment variable is called like a secret.
func secretName(name string) bool {
	name = strings.ReplaceAll(strings.ToUpper(name), "AUTHOR", "")
	return slices.ContainsFunc(telling, func(part string) bool { return strings.Contains(name, part) })
}

// mask hides secrets in texts: their values as they are, and as quoting,
// escaping, hexadecimal and base64 write them. A nil mask hides nothing. Its
// methods may be called at once.
type mask struct {
	values  []string          // the secrets themselves
	needles map[byte][]string // every form, by its first byte, the longest first
	longest int               // length of the longest form
	first   [256]bool         // bytes that a form begins with
	second  [256]bool         // and those that come next
}

// newMask returns the mask of a configuration and of further environment
// variables "K=V"; nil if there are no secrets.
func newMask(cfg *atoll.Config, env ...string) *mask {
	var values []string
	for _, v := range cfg.Secrets {
		values = append(values, v)
	}
	for _, list := range [][]string{cfg.Env, env} {
		for _, e := range list {
			if k, v, ok := strings.Cut(e, "="); ok && secretName(k) {
				values = append(values, v)
			}
		}
	}
	return maskOf(values)
}

// with returns a mask that hides the secrets of further environment variables
// too.
func (m *mask) with(env []string) *mask {
	var more []string
	for _, e := range env {
		if k, v, ok := strings.Cut(e, "="); ok && secretName(k) {
			more = append(more, v)
		}
	}
	if len(more) == 0 {
		return m
	}
	if m != nil {
		more = append(more, m.values...)
	}
	return maskOf(more)
}

func maskOf(values []string) *mask {
	m := &mask{needles: make(map[byte][]string)}
	for _, v := range values {
		if !hideable(v) || slices.Contains(m.values, v) {
			continue
		}
		m.values = append(m.values, v)
		for _, f := range forms(v) {
			if list := m.needles[f[0]]; !slices.Contains(list, f) {
				m.needles[f[0]] = append(list, f)
			}
		}
	}
	if len(m.values) == 0 {
		return nil
	}
	for b, list := range m.needles {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
		m.longest = max(m.longest, len(list[0]))
		m.first[b] = true
		for _, f := range list {
			m.second[f[1]] = true
		}
	}
	return m
}

func hideable(v string) bool {
	return len(v) >= minSecret && !slices.Contains(plain, strings.ToLower(v)) && strings.Trim(v, "*") != ""
}

// forms are the ways in which a secret may stand in a text.
func forms(v string) []string {
	list := []string{
		v, strings.ReplaceAll(v, "'", `'\''`), jsonText(v, true), jsonText(v, false),
		url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))),
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 { // where it stands among the bytes that are encoded
			text := enc.EncodeToString(append(make([]byte, lead), v...))
			list = append(list, text[(lead*8+5)/6:(lead+len(v))*8/6]) // the characters that only it decides
		}
	}
	if strings.ContainsAny(v, "\r\n") {
		for line := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if len(line) >= 2*minSecret { // as terminals and filters show it
				list = append(list, line)
			}
		}
	}
	return slices.DeleteFunc(list, func(f string) bool { return len(f) < minSecret })
}

// jsonText is a text as it stands in JSON, without the quotes around it.
func jsonText(v string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(v) // a string always can be
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// text returns s with its secrets hidden.
func (m *mask) text(s string) string {
	if m == nil {
		return s
	}
	for { // what is left may come together to another one; it gets shorter each time
		out, changed := m.pass(s, len(s))
		if !changed {
			return s
		}
		s = out
	}
}

// head returns the first limit bytes of s with their secrets hidden, whole
// ones that go on past the limit too. With cut, s itself was cut off: what may
// be the beginning of a secret at its end is hidden as well.
func (m *mask) head(s string, limit int, cut bool) string {
	limit = min(limit, len(s))
	if m == nil {
		return s[:limit]
	}
	if cut {
		s = m.tail(s)
		limit = min(limit, len(s))
	}
	out, changed := m.pass(s, limit)
	if changed {
		return m.text(out)
	}
	return out
}

// slack is how much of a text must follow a place for every secret that begins
// before it to be found.
func (m *mask) slack() int {
	if m == nil {
		return 0
	}
	return m.longest
}

// tail hides the beginning of a secret at the end of s.
func (m *mask) tail(s string) string {
	from := len(s)
	for _, list := range m.needles {
		for _, f := range list {
			for n := min(len(f)-1, len(s)); n >= minSecret; n-- {
				if strings.HasSuffix(s, f[:n]) {
					from = min(from, len(s)-n)
					break
				}
			}
		}
	}
	if from == len(s) {
		return s
	}
	return s[:from] + hidden
}

// pass hides the secrets that begin before limit, and returns what comes of
// the text up to there. Secrets that overlap are hidden as one.
func (m *mask) pass(s string, limit int) (string, bool) {
	var b strings.Builder
	done, end := 0, 0 // up to where it is written; where the secret ends that we are in
	flush := func(at int) {
		if end > done {
			b.WriteString(hidden)
			done = end
		}
		b.WriteString(s[done:max(at, done)])
		done = max(at, done)
	}
	changed := false
	for i := 0; i+1 < len(s) && i < limit; i++ {
		if !m.first[s[i]] || !m.second[s[i+1]] {
			continue
		}
		for _, f := range m.needles[s[i]] {
			if !strings.HasPrefix(s[i:], f) {
				continue
			}
			if i >= end { // a new one
				flush(i)
			}
			end, changed = max(end, i+len(f)), true
			break
		}
	}
	if !changed {
		return s[:limit], false
	}
	flush(limit)
	return b.String(), true
}

// redactor returns a function that hides the secrets of a configuration.
func redactor(cfg atoll.Config) func(string) string { return newMask(&cfg).text }

// redacted returns a configuration as it may be shown: without the values of
// its secrets, wherever they stand.
func redacted(cfg atoll.Config) atoll.Config {
	m := newMask(&cfg)
	secrets := make(map[string]string, len(cfg.Secrets))
	for k := range cfg.Secrets {
		secrets[k] = hidden
	}
	if len(secrets) > 0 {
		cfg.Secrets = secrets
	}
	cfg.Env = slices.Clone(cfg.Env)
	for i, e := range cfg.Env {
		if k, v, _ := strings.Cut(e, "="); secretName(k) && v != "" {
			cfg.Env[i] = k + "=" + hidden
		} else {
			cfg.Env[i] = m.text(e)
		}
	}
	cfg.Prepare = slices.Clone(cfg.Prepare)
	for i := range cfg.Prepare {
		s := &cfg.Prepare[i]
		s.Shell, s.Exec = m.text(s.Shell), slices.Clone(s.Exec)
		for j := range s.Exec {
			s.Exec[j] = m.text(s.Exec[j])
		}
		if s.File != nil {
			file := *s.File
			file.Content = m.text(file.Content)
			s.File = &file
		}
	}
	return cfg
}

// error returns err, if it shows a secret as one that does not. errors.Is and
// errors.As see what they saw; an *atoll.Error shows no secret either.
func (m *mask) error(err error) error {
	if m == nil || err == nil {
		return err
	}
	if text := err.Error(); m.text(text) != text {
		return &discreet{err, m}
	}
	return err
}

// discreet is an error whose text has its secrets hidden.
type discreet struct {
	err error
	m   *mask
}

func (d *discreet) Error() string { return d.m.text(d.err.Error()) }

// Is reports whether the error is a target.
func (d *discreet) Is(target error) bool { return errors.Is(d.err, target) }

// As finds a target, and hides the secrets of an *atoll.Error.
func (d *discreet) As(target any) bool {
	if into, ok := target.(**atoll.Error); ok {
		var e *atoll.Error
		if !errors.As(d.err, &e) {
			return false
		}
		*into = &atoll.Error{Op: d.m.text(e.Op), ID: d.m.text(e.ID), Err: d.m.error(e.Err)}
		return true
	}
	return errors.As(d.err, target)
}

// Unwrap returns the parts of the error, with their secrets hidden.
func (d *discreet) Unwrap() []error {
	var parts []error
	switch u := d.err.(type) { //nolint:errorlint // it is this error that is taken apart
	case interface{ Unwrap() []error }:
		parts = slices.Clone(u.Unwrap())
	case interface{ Unwrap() error }:
		parts = []error{u.Unwrap()}
	}
	for i := range parts {
		parts[i] = d.m.error(parts[i])
	}
	return slices.DeleteFunc(parts, func(err error) bool { return err == nil })
}

// clip bounds a text without cutting a character in two.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// command is the text of a command with its secrets hidden.
func (m *mask) command(cmd *atoll.Cmd) string {
	text := commandText(cmd, historyCommand+m.slack())
	return clip(m.head(text, historyCommand, len(text) >= historyCommand+m.slack()), historyCommand)
}

// mask returns what hides the secrets of the sandbox and of further environment
// variables.
func (s *Sandbox) mask(env []string) *mask {
	return s.b.secrets.of(s.b).with(env)
}

// veil is the mask of a box, made anew when its row is another.
type veil struct {
	mu   sync.Mutex
	turn int64 // of the row that mask is made of; guarded by mu, as mask
	mask *mask
}

func (v *veil) of(b *box) *mask {
	v.mu.Lock()
	defer v.mu.Unlock()
	b.mu.Lock()
	turn, cfg := b.row.turn, b.row.cfg
	b.mu.Unlock()
	if v.turn != turn {
		v.turn, v.mask = turn, newMask(&cfg)
	}
	return v.mask
}
