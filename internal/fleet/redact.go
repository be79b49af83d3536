package fleet

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
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
	values  []string  // the secrets themselves, each once
	needles []string  // every form, sorted, each once
	within  []int     // the longest needle that each one begins with, but for itself; -1 for none
	longest int       // length of the longest form
	first   [256]bool // bytes that a form begins with
	second  [256]bool // and those that come next
}

// newMask returns the mask of a configuration and of further environment
// variables "K=V"; nil if there are no secrets.
func newMask(cfg *atoll.Config, env ...string) *mask {
	var values []string
	for _, v := range cfg.Secrets {
		values = append(values, v)
	}
	values = append(values, headerSecrets(cfg)...)
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
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !hideable(v) })
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	m := &mask{values: slices.Compact(values)}
	for _, v := range m.values {
		m.needles = append(m.needles, forms(v)...)
	}
	slices.Sort(m.needles)
	m.needles = slices.Compact(m.needles)
	m.within = make([]int, len(m.needles))
	for i, f := range m.needles {
		in := i - 1 // what it begins with stands before it, and what stands between begins with that too
		for in >= 0 && !strings.HasPrefix(f, m.needles[in]) {
			in = m.within[in]
		}
		m.within[i] = in
		m.longest = max(m.longest, len(f))
		m.first[f[0]], m.second[f[1]] = true, true
	}
	return m
}

// at returns the length of the longest form that s begins with; 0 for none.
func (m *mask) at(s string) int {
	if len(s) < minSecret || !m.first[s[0]] || !m.second[s[1]] {
		return 0
	}
	i, _ := slices.BinarySearch(m.needles, s)
	if i < len(m.needles) && m.needles[i] == s {
		return len(s)
	}
	if i--; i < 0 {
		return 0
	}
	same := common(s, m.needles[i])
	for i >= 0 && len(m.needles[i]) > same {
		i = m.within[i]
	}
	if i < 0 {
		return 0
	}
	return len(m.needles[i])
}

// common returns how long the beginning is that two texts share. It goes in
// steps first: a secret may be long.
func common(a, b string) (n int) {
	most := min(len(a), len(b))
	for step := 512; n+step <= most && a[n:n+step] == b[n:n+step]; {
		n += step
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
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

// mostPasses is how often a text is gone through.
const mostPasses = 20

// text returns s with its secrets hidden.
func (m *mask) text(s string) string {
	if m == nil {
		return s
	}
	for range mostPasses { // what is left may come together to another one
		out, changed := m.pass(s, len(s))
		if !changed {
			return s
		}
		s = out
	}
	return hidden // it was made to take for ever
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
	for from := max(0, len(s)-m.longest); from <= len(s)-minSecret; from++ {
		rest := s[from:]
		if !m.first[rest[0]] || !m.second[rest[1]] {
			continue
		}
		if i, _ := slices.BinarySearch(m.needles, rest); i < len(m.needles) && strings.HasPrefix(m.needles[i], rest) {
			return s[:from] + hidden
		}
	}
	return s
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
	for i := range limit {
		n := m.at(s[i:])
		if n == 0 {
			continue
		}
		if i >= end { // a new one
			flush(i)
		}
		end, changed = max(end, i+n), true
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
func redacted(cfg atoll.Config) atoll.Config { return newMask(&cfg).config(cfg) }

// config returns the configuration that the mask is of as it may be shown.
func (m *mask) config(cfg atoll.Config) atoll.Config {
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
	cfg.Network = shownNetwork(cfg.Network)
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

// veil is the mask of a box, and its configuration as it may be shown; made anew
// when its row is another.
type veil struct {
	mu    sync.Mutex
	turn  int64 // of the row that it is of; guarded by mu, as all
	made  bool  // mask is
	mask  *mask
	shown *atoll.Config // nil: nobody has asked yet
}

func (v *veil) of(b *box) *mask {
	r := b.known()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.renew(&r)
	return v.mask
}

// renew sees to it that the mask is of the row, or of a later one. The caller
// holds mu.
func (v *veil) renew(r *row) {
	if !v.made || v.turn < r.turn {
		v.turn, v.made, v.mask, v.shown = r.turn, true, newMask(&r.cfg), nil
	}
}

// config returns the configuration of a row of the box as it may be shown.
func (v *veil) config(r *row) atoll.Config {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.renew(r)
	if v.turn != r.turn { // it was read before the one that is known
		return redacted(r.cfg)
	}
	if v.shown == nil {
		cfg := v.mask.config(r.cfg)
		v.shown = &cfg
	}
	cfg := r.cfg
	cfg.Secrets, cfg.Env, cfg.Prepare = maps.Clone(v.shown.Secrets), slices.Clone(v.shown.Env), slices.Clone(v.shown.Prepare)
	cfg.Network = shownNetwork(v.shown.Network)
	return cfg
}

// shown is the configuration of a row as it may be shown.
func (f *Fleet) shown(r *row) atoll.Config {
	if b := f.lookup(r.id); b != nil {
		return b.secrets.config(r)
	}
	return redacted(r.cfg)
}
