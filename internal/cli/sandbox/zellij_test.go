package sandbox

import (
	"strings"
	"testing"
)

// What a Zellij says of a token that it has made; anything else is none.
func TestZellijToken(t *testing.T) {
	const id = "75715e95-c1c4-4d40-9beb-c3ecd665b72b"
	for text, want := range map[string]string{
		"Created token successfully\n\ntoken_1: " + id + "\n": "token_1",
		"\r\ntoken_2: " + id + " (read-only)\r\n":             "token_2",
		"quiet-otter: " + id:                                  "quiet-otter",
		"Created token successfully\n":                        "",
		"token_1: short\n":                                    "",
		"token_1: \x1b]52;c;" + id + "\n":                     "",
		"token_1: " + id + " and more\n":                      "",
		"tok en: " + id + "\n":                                "",
		"token_1: " + strings.Repeat("a", 200) + "\n":         "",
	} {
		name, secret, ok := readZellijToken(text)
		if name != want || ok != (want != "") || ok && secret != id {
			t.Errorf("%q: %q, %q, %v", text, name, secret, ok)
		}
	}
}
