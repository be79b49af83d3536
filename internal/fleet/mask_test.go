package fleet

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestMask(t *testing.T) {
	cfg := atoll.Config{Secrets: map[string]string{"A": "hunter22", "B": "hunter22-and-more", "C": "x'y z", "D": "true", "E": "abc", "F": "line one\nline two\n"}}
	cfg.Env = []string{"GITHUB_TOKEN=ghp_0123", "EDITOR=vim-the-editor", "GIT_AUTHOR_NAME=Jane Doe", "api_key=k=v=w", "EMPTY_SECRET="}
	m := newMask(&cfg)
	for _, c := range []struct{ law, text, want string }{
		{"Plain", "pw hunter22.", "pw ***."},
		{"LongestFirst", "hunter22-and-more", "***"},
		{"Twice", "hunter22hunter22", "******"},
		{"Quoted", `echo 'x'\''y z'`, "echo '***'"},
		{"InJSON", `{"v":"line one\nline two\n"}`, `{"v":"***"}`},
		{"InAURL", "https://u:x%27y+z@h/x%27y%20z", "https://u:***@h/***"},
		{"Lines", "line one\r\nline two\r\n", "***\r\n***\r\n"},
		{"Hex", "68756e7465723232", "***"},
		{"EnvCalledLikeASecret", "ghp_0123 k=v=w", "*** ***"},
		{"EnvThatIsNone", "vim-the-editor Jane Doe", "vim-the-editor Jane Doe"},
		{"TooShortOrPlain", "abc true", "abc true"},
		{"NothingToHide", "ls -l", "ls -l"},
		{"Empty", "", ""},
	} {
		if got := m.redact(c.text); got != c.want {
			t.Errorf("%s: %q is shown as %q, want %q", c.law, c.text, got, c.want)
		}
	}
	if m := newMask(&atoll.Config{}); m != nil || m.redact("x") != "x" || m.redactHead("xyz", 2, true) != "xy" {
		t.Error("a mask without secrets hides something")
	}
}

func TestMaskOverlappingSecrets(t *testing.T) {
	m := maskOfValues([]string{"abcd", "cdefgh", "a***b"})
	for text, want := range map[string]string{"abcdefgh": "***", "xabcdefghy": "x***y", "aabcdb": "***", "abcabcd": "abc***"} {
		if got := m.redact(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// TestManySecrets redacts a configuration of 32,000 variables: one of 45,000 once took 23
// seconds.
func TestManySecrets(t *testing.T) {
	const n = 16_000
	cfg := atoll.Config{}
	for i := range n {
		cfg.Env = append(cfg.Env, fmt.Sprintf("K%dKEY=value-%d", i, i), fmt.Sprintf("V%d=of value-%d.", i, i))
	}
	shown := redactConfig(cfg)
	if last := len(cfg.Env) - 1; shown.Env[last] != fmt.Sprintf("V%d=of ***.", n-1) || shown.Env[last-1] != fmt.Sprintf("K%dKEY=***", n-1) {
		t.Fatalf("the last are shown as %q", shown.Env[last-1:])
	}
}

// TestMaskNestedSecrets: replacing one secret may create another one.
func TestMaskNestedSecrets(t *testing.T) {
	m := maskOfValues([]string{"a***b", "hunter22"})
	deep := strings.Repeat("a", 100_000) + "hunter22" + strings.Repeat("b", 100_000)
	if got := m.redact(deep); got != hidden {
		t.Errorf("%d bytes are shown", len(got))
	}
	if got := m.redact("(aaahunter22bbb)"); got != "(***)" {
		t.Errorf("three deep: %q", got)
	}
}

// TestMaskIsCachedInHandle: the handle caches the mask until the sandbox's secrets
// change.
func TestMaskIsCachedInHandle(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Secrets: map[string]string{"S": "hunter22"}})
	m := sb.secretMask(nil)
	shown := func() *atoll.Config {
		info, err := sb.Info(t.Context())
		must(t, err)
		if info.Config.Secrets["S"] != hidden {
			t.Errorf("shown: %v", info.Config.Secrets)
		}
		info.Config.Secrets["S"] = "changed" // it is the caller's
		return sb.b.masks.config
	}
	first := shown()
	if m == nil || sb.secretMask(nil) != m || shown() != first {
		t.Error("it is made anew though nothing has changed")
	}
	must(t, sb.Stop(t.Context()))
	if again := sb.secretMask(nil); again == m || again == nil {
		t.Error("it is the same though the sandbox has changed")
	}
	shown()
}

func TestMaskTruncatedOutput(t *testing.T) {
	m := maskOfValues([]string{"hunter22"})
	for _, c := range []struct {
		law, text string
		limit     int
		cut       bool
		want      string
	}{
		{"SecretAcrossTheLimit", "12345hunter22 and more", 8, false, "12345***"},
		{"SecretBehindTheLimit", "12345678hunter22", 8, false, "12345678"},
		{"ShorterThanTheLimit", "hunter22!", 100, false, "***!"},
		{"BeginningAtTheEnd", "12 hunter", 100, true, "12 ***"},
		{"BeginningAtTheEndThatIsAll", "12 hunter", 100, false, "12 hunter"},
		{"TooLittleOfIt", "12 hun", 100, true, "12 hun"},
		{"HiddenBeforeTheLimit", "hunter22hunterX", 10, true, "***hu"},
	} {
		if got := m.redactHead(c.text, c.limit, c.cut); got != c.want {
			t.Errorf("%s: %q is shown as %q, want %q", c.law, c.text, got, c.want)
		}
	}
}

func TestRedactedErrorsKeepTheirKind(t *testing.T) {
	m := maskOfValues([]string{"hunter22"})
	inner := fmt.Errorf("%w: %w", atoll.ErrInvalid, errors.Join(
		&fs.PathError{Op: "open", Path: "/hunter22", Err: fs.ErrNotExist}, fmt.Errorf("env hunter22: %w", atoll.ErrQuota)))
	err := m.redactError(&atoll.Error{Op: "exec", ID: "s1", Err: inner})
	for _, target := range []error{atoll.ErrInvalid, atoll.ErrQuota, fs.ErrNotExist} {
		if !errors.Is(err, target) {
			t.Errorf("%v does not match %v", err, target)
		}
	}
	var ours *atoll.Error
	if !errors.As(err, &ours) || ours.Op != "exec" || ours.ID != "s1" || !errors.Is(ours, atoll.ErrQuota) {
		t.Errorf("as an atoll.Error it is %v", ours)
	}
	var path *fs.PathError
	if !errors.As(err, &path) {
		t.Error("it is no PathError any more")
	}
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q shows the secret", err)
		}
		switch u := err.(type) { //nolint:errorlint // each level by itself
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		case interface{ Unwrap() error }:
			walk(u.Unwrap())
		}
	}
	walk(err)
	walk(ours)
	if other := errors.New("plain"); m.redactError(other) != other || m.redactError(nil) != nil { //nolint:errorlint // the very same
		t.Error("an error without secrets is another")
	}
}

func TestRedactedConfig(t *testing.T) {
	cfg := atoll.Config{
		Secrets: map[string]string{"PW": "hunter22", "SHORT": "x"},
		Prepare: []atoll.Step{
			{Shell: "login hunter22"}, {Exec: []string{"login", "hunter22"}}, {File: &atoll.StepFile{Path: "/f", Content: "pw=hunter22"}},
		},
	}
	cfg.Env = []string{"API_KEY=sesame99", "X_TOKEN=q", "PLAIN=with hunter22"}
	before, _ := json.Marshal(cfg)
	shown, _ := json.Marshal(redactConfig(cfg))
	if after, _ := json.Marshal(cfg); string(after) != string(before) {
		t.Errorf("the configuration itself has changed: %s", after)
	}
	for _, secret := range []string{"hunter22", "sesame99", `"x"`, "=q"} {
		if strings.Contains(string(shown), secret) {
			t.Errorf("%s shows %s", shown, secret)
		}
	}
}

// FuzzMask checks that no form of a secret is in the masked form of a text that
// contains it.
func FuzzMask(f *testing.F) {
	f.Add("hunter22", "other", "text", uint8(0), uint16(3))
	f.Add("a'b\"c\\d<&>", "a'b", "\n", uint8(1), uint16(70))
	f.Add("****x", "***", "*", uint8(2), uint16(10))
	f.Add("aaaa", "aaaaa", "a", uint8(3), uint16(9))
	f.Add("line one\nline two", "\xff\xfe\xfd\xfc", "\x00", uint8(4), uint16(1000))
	f.Fuzz(func(t *testing.T, a, b, text string, lead uint8, limit uint16) {
		if len(a) > 200 || len(b) > 200 || len(text) > 500 {
			return
		}
		m := maskOfValues([]string{a, b})
		if m == nil {
			return
		}
		pad := strings.Repeat("p", int(lead%7))
		full := text + encodeForms(pad, a) + text + encodeForms(pad, b) + a + b + text
		shown := []string{m.redact(full), m.redactHead(full, int(limit), true), m.redactHead(full[:len(full)-int(lead)%len(full)], int(limit), true)}
		for _, s := range shown {
			for _, v := range m.values {
				for _, form := range []string{v, hex.EncodeToString([]byte(v)), url.QueryEscape(v), base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v))} {
					if strings.Contains(s, form) {
						t.Fatalf("%q shows %q of secret %q", s, form, v)
					}
				}
			}
		}
	})
}

// encodeForms returns a value in all forms in which a text may contain it.
func encodeForms(pad, v string) string {
	js, _ := json.Marshal(pad + v)
	return strings.Join([]string{
		pad + v, "'" + strings.ReplaceAll(v, "'", `'\''`) + "'", string(js), url.QueryEscape(pad + v), url.PathEscape(v),
		hex.EncodeToString([]byte(pad + v)), base64.StdEncoding.EncodeToString([]byte(pad + v)), base64.URLEncoding.EncodeToString([]byte(v + pad)),
	}, pad+" ")
}

func BenchmarkMask64KiB(b *testing.B) {
	m := maskOfValues([]string{"hunter22-and-more", "ghp_0123456789abcdef", "sk-ant-0123456789", "postgres://u:p@h/db"})
	text := strings.Repeat("the quick brown fox jumps over the lazy dog 0123456789\n", 1200)
	b.SetBytes(int64(len(text)))
	for range b.N {
		m.redact(text)
	}
}
