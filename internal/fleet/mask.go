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
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// hidden replaces a secret.
const hidden = "***"

// minSecret is the length of the shortest value that is hidden. Hiding shorter values would make
// texts unreadable and protect nothing.
const minSecret = 4

// nonSecrets are values that are never hidden.
var nonSecrets = []string{"true", "false", "none", "null"}

// secretNameParts are parts of the names of environment variables with secret values.
var secretNameParts = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "KEY", "PRIVATE", "AUTH", "COOKIE", "SIGNATURE"}

// secretName reports whether an environment variable has the name of a secret.
func secretName(name string) bool {
	name = strings.ReplaceAll(strings.ToUpper(name), "AUTHOR", "")
	return slices.ContainsFunc(secretNameParts, func(part string) bool { return strings.Contains(name, part) })
}

// mask hides secrets in texts: the values themselves, and their quoted, escaped, hexadecimal and
// base64 forms. A nil mask hides nothing. Its methods may be called concurrently.
type mask struct {
	values   []string  // the secrets, each once
	needles  []string  // all encoded forms, sorted, each once
	prefixOf []int     // index of the longest other needle that is a prefix of the needle; -1: none
	longest  int       // length of the longest form
	first    [256]bool // bytes that a form begins with
	second   [256]bool // second bytes of the forms
}

// newMask returns the mask of a configuration and of more environment variables "K=V"; nil if
// there are no secrets.
func newMask(cfg *atoll.Config, env ...string) *mask {
	var values []string
	for _, v := range cfg.Secrets {
		if !secretref.IsReference(v) && !issuer.IsReference(v) { // a reference is no secret
			values = append(values, v)
		}
	}
	values = append(values, headerSecrets(cfg)...)
	for _, list := range [][]string{cfg.Env, env} {
		for _, e := range list {
			if k, v, ok := strings.Cut(e, "="); ok && secretName(k) {
				values = append(values, v)
			}
		}
	}
	return maskOfValues(values)
}

// withEnv returns a mask that also hides the secrets among more environment variables.
func (m *mask) withEnv(env []string) *mask {
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
	return maskOfValues(more)
}

// withValues returns a mask that also hides more values.
func (m *mask) withValues(more []string) *mask {
	if len(more) == 0 {
		return m
	}
	if m != nil {
		more = slices.Concat(more, m.values)
	}
	return maskOfValues(more)
}

func maskOfValues(values []string) *mask {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !isHideable(v) })
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	m := &mask{values: slices.Compact(values)}
	for _, v := range m.values {
		m.needles = append(m.needles, encodedForms(v)...)
	}
	slices.Sort(m.needles)
	m.needles = slices.Compact(m.needles)
	m.prefixOf = make([]int, len(m.needles))
	for i, f := range m.needles {
		in := i - 1 // prefixes sort before the needle, and entries in between share the prefix
		for in >= 0 && !strings.HasPrefix(f, m.needles[in]) {
			in = m.prefixOf[in]
		}
		m.prefixOf[i] = in
		m.longest = max(m.longest, len(f))
		m.first[f[0]], m.second[f[1]] = true, true
	}
	return m
}

// matchAt returns the length of the longest form that s begins with; 0: none.
func (m *mask) matchAt(s string) int {
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
	same := commonPrefix(s, m.needles[i])
	for i >= 0 && len(m.needles[i]) > same {
		i = m.prefixOf[i]
	}
	if i < 0 {
		return 0
	}
	return len(m.needles[i])
}

// commonPrefix returns the length of the common prefix of two texts. It compares blocks first: a
// secret may be long.
func commonPrefix(a, b string) (n int) {
	most := min(len(a), len(b))
	for step := 512; n+step <= most && a[n:n+step] == b[n:n+step]; {
		n += step
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

func isHideable(v string) bool {
	return len(v) >= minSecret && !slices.Contains(nonSecrets, strings.ToLower(v)) && strings.Trim(v, "*") != ""
}

// encodedForms returns the forms in which a secret may appear in a text.
func encodedForms(v string) []string {
	list := []string{
		v, strings.ReplaceAll(v, "'", `'\''`), jsonText(v, true), jsonText(v, false),
		url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))),
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 { // its position in a group of three encoded bytes
			text := enc.EncodeToString(append(make([]byte, lead), v...))
			list = append(list, text[(lead*8+5)/6:(lead+len(v))*8/6]) // the characters that depend on the secret alone
		}
	}
	if strings.ContainsAny(v, "\r\n") {
		for line := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if len(line) >= 2*minSecret { // as terminals and line filters show it
				list = append(list, line)
			}
		}
	}
	return slices.DeleteFunc(list, func(f string) bool { return len(f) < minSecret })
}

// jsonText returns a text as JSON encodes it, without the quotes.
func jsonText(v string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(v) // strings always encode
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// maxPasses bounds the passes over a text.
const maxPasses = 20

// redact returns s with its secrets hidden.
func (m *mask) redact(s string) string {
	if m == nil {
		return s
	}
	for range maxPasses { // the rest may join to another secret
		out, changed := m.redactOnce(s, len(s))
		if !changed {
			return s
		}
		s = out
	}
	return hidden // crafted to need endless passes
}

// redactHead returns the first limit bytes of s with their secrets hidden, including those that
// extend beyond the limit. If cut, s is itself truncated: a possible beginning of a secret at its
// end is hidden too.
func (m *mask) redactHead(s string, limit int, cut bool) string {
	limit = min(limit, len(s))
	if m == nil {
		return s[:limit]
	}
	if cut {
		s = m.redactTail(s)
		limit = min(limit, len(s))
	}
	out, changed := m.redactOnce(s, limit)
	if changed {
		return m.redact(out)
	}
	return out
}

// maxOverlap returns how many bytes after a position are needed to find every secret that begins
// before it.
func (m *mask) maxOverlap() int {
	if m == nil {
		return 0
	}
	return m.longest
}

// redactTail hides a possible beginning of a secret at the end of s.
func (m *mask) redactTail(s string) string {
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

// redactOnce hides the secrets that begin before limit, in one pass, and returns the text up to
// there. Overlapping secrets are hidden as one.
func (m *mask) redactOnce(s string, limit int) (string, bool) {
	var b strings.Builder
	done, end := 0, 0 // end of what is written; end of the present secret
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
		n := m.matchAt(s[i:])
		if n == 0 {
			continue
		}
		if i >= end { // not overlapping
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

// redactConfig returns a configuration without the values of its secrets.
func redactConfig(cfg atoll.Config) atoll.Config { return newMask(&cfg).redactConfig(cfg) }

// redactConfig returns the mask's configuration without the values of its secrets.
func (m *mask) redactConfig(cfg atoll.Config) atoll.Config {
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
			cfg.Env[i] = m.redact(e)
		}
	}
	cfg.Network = redactNetwork(cfg.Network)
	cfg.Prepare = slices.Clone(cfg.Prepare)
	for i := range cfg.Prepare {
		s := &cfg.Prepare[i]
		s.Shell, s.Exec = m.redact(s.Shell), slices.Clone(s.Exec)
		for j := range s.Exec {
			s.Exec[j] = m.redact(s.Exec[j])
		}
		if s.File != nil {
			file := *s.File
			file.Content = m.redact(file.Content)
			s.File = &file
		}
	}
	return cfg
}

// redactError returns err, or if its text shows a secret, an error that does not. errors.Is and
// errors.As still match; an *atoll.Error found by them shows no secret either.
func (m *mask) redactError(err error) error {
	if m == nil || err == nil {
		return err
	}
	if text := err.Error(); m.redact(text) != text {
		return &redactedError{err, m}
	}
	return err
}

// redactedError is an error with secrets hidden in its text.
type redactedError struct {
	err error
	m   *mask
}

func (d *redactedError) Error() string { return d.m.redact(d.err.Error()) }

// Is reports whether the error matches a target.
func (d *redactedError) Is(target error) bool { return errors.Is(d.err, target) }

// As finds a target. The secrets of an *atoll.Error are hidden.
func (d *redactedError) As(target any) bool {
	if into, ok := target.(**atoll.Error); ok {
		var e *atoll.Error
		if !errors.As(d.err, &e) {
			return false
		}
		*into = &atoll.Error{Op: d.m.redact(e.Op), ID: d.m.redact(e.ID), Err: d.m.redactError(e.Err)}
		return true
	}
	return errors.As(d.err, target)
}

// Unwrap returns the wrapped errors with their secrets hidden.
func (d *redactedError) Unwrap() []error {
	var parts []error
	switch u := d.err.(type) { //nolint:errorlint // it is this error that is taken apart
	case interface{ Unwrap() []error }:
		parts = slices.Clone(u.Unwrap())
	case interface{ Unwrap() error }:
		parts = []error{u.Unwrap()}
	}
	for i := range parts {
		parts[i] = d.m.redactError(parts[i])
	}
	return slices.DeleteFunc(parts, func(err error) bool { return err == nil })
}

// truncate cuts a text to a number of bytes, without cutting a character in two.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// redactCommand returns the text of a command with its secrets hidden.
func (m *mask) redactCommand(cmd *atoll.Cmd) string {
	text := commandText(cmd, maxHistoryCommand+m.maxOverlap())
	return truncate(m.redactHead(text, maxHistoryCommand, len(text) >= maxHistoryCommand+m.maxOverlap()), maxHistoryCommand)
}

// secretMask returns the mask of the sandbox's secrets and of those among more environment
// variables.
func (s *Sandbox) secretMask(env []string) *mask {
	r := s.b.cachedRow()
	return s.b.masks.maskFor(s.b).withEnv(env).withValues(slices.Concat(s.f.referenceValues(&r.cfg), s.f.identityValues(&r)))
}

// maskCache caches the mask and the redacted configuration of a sandbox for a revision of its row.
type maskCache struct {
	mu       sync.Mutex
	revision int64 // of the row; guarded by mu, as all
	made     bool  // mask is set
	mask     *mask
	config   *atoll.Config // nil: not computed yet
}

func (v *maskCache) maskFor(b *handle) *mask {
	r := b.cachedRow()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refreshFor(&r)
	return v.mask
}

// refreshFor makes the cache that of a row, unless it is that of a later one. The caller holds mu.
func (v *maskCache) refreshFor(r *row) {
	if !v.made || v.revision < r.revision {
		v.revision, v.made, v.mask, v.config = r.revision, true, newMask(&r.cfg), nil
	}
}

// redactedConfig returns the configuration of a row of the sandbox with its secrets hidden.
func (v *maskCache) redactedConfig(r *row) atoll.Config {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refreshFor(r)
	if v.revision != r.revision { // the cache is that of a later row
		return redactConfig(r.cfg)
	}
	if v.config == nil {
		cfg := v.mask.redactConfig(r.cfg)
		v.config = &cfg
	}
	cfg := r.cfg
	cfg.Secrets, cfg.Env, cfg.Prepare = maps.Clone(v.config.Secrets), slices.Clone(v.config.Env), slices.Clone(v.config.Prepare)
	cfg.Network = redactNetwork(v.config.Network)
	return cfg
}

// redactedConfig returns the configuration of a row with its secrets hidden.
func (f *Fleet) redactedConfig(r *row) atoll.Config {
	if b := f.findHandle(r.id); b != nil {
		return b.masks.redactedConfig(r)
	}
	return redactConfig(r.cfg)
}
