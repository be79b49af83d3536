package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func redactorOf(secrets ...string) Redactor {
	cfg := atoll.Config{Secrets: make(map[string]string)}
	for _, s := range secrets {
		cfg.Secrets[s] = s
	}
	return Redactor{newMask(&cfg)}
}

// A secret does not leak in pieces either, wherever the text is split.
func TestHoldShowsNoPartialSecrets(t *testing.T) {
	for _, c := range []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"operator-secret"}, "it is operator-secret, you see", "it is ***, you see"},
		{[]string{"operator-secret"}, "an operator, o operator-secretoperator-secret", "an operator, o ***"},
		{[]string{"abcdef", "efghij"}, "x abcdefghij y abcdef z efgh", "x *** y *** z efgh"},
		{[]string{"secret", "secret-longer"}, "secret-long secret-longer secret", "***-long *** ***"},
		{nil, "nothing to hide", "nothing to hide"},
	} {
		r := redactorOf(c.secrets...)
		for size := 1; size <= len(c.text); size++ {
			var out strings.Builder
			told, rest := "", ""
			for at := 0; at < len(c.text); at += size {
				told, rest = r.Split(rest + c.text[at:min(at+size, len(c.text))])
				out.WriteString(told)
			}
			out.WriteString(r.RedactText(rest))
			got := out.String()
			for strings.Contains(got, "******") { // those next to each other
				got = strings.ReplaceAll(got, "******", "***")
			}
			if got != c.want {
				t.Errorf("%q by %d bytes: %q", c.text, size, got)
			}
		}
	}
	r := redactorOf("aaaa")
	if _, rest := r.Split(strings.Repeat("a", 1<<16)); len(rest) > 64 {
		t.Errorf("%d bytes are held back", len(rest))
	}
}

// JSON stays JSON.
func TestRedactorJSON(t *testing.T) {
	r := redactorOf("nsecret", "12345678", "operator\nsecret")
	for in, want := range map[string]string{
		`{"a":"x\nsecret"}`: `{"a":"x\nsecret"}`, `{"a":12345678,"nsecret":["nsecret"]}`: `{"***":["***"],"a":"***"}`,
		`"operator\nsecret"`: `"***"`, `"\u006esecret"`: `"***"`, `nsecret`: `"***"`, `{"n":1.50}`: `{"n":1.50}`, `null`: `null`, ``: ``,
	} {
		got := r.RedactJSON(json.RawMessage(in))
		if string(got) != want || in != "" && !json.Valid(got) {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
}
