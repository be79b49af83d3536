package keyring

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func randomLine(b byte) string {
	key := bytes.Repeat([]byte{b, b + 1}, keySize/2)
	return base64.StdEncoding.EncodeToString(key)
}

func TestParseMasters(t *testing.T) {
	first, second := randomLine(0xfa), randomLine(0x55)
	for _, c := range []struct {
		name, text string
		keys       int
		off        bool
		reason     string // of the error
	}{
		{name: "One", text: first, keys: 1},
		{name: "CommentsAndBlanks", text: "# a\n\n  " + first + "  \r\n" + second + "\n", keys: 2},
		{name: "WithoutPadding", text: strings.TrimRight(first, "="), keys: 1},
		{name: "ForURLs", text: strings.NewReplacer("+", "-", "/", "_").Replace(first), keys: 1},
		{name: "Off", text: "none\n" + first, keys: 1, off: true},
		{name: "OffWithoutKeys", text: "none", off: true},
		{name: "NoneLater", text: first + "\nnone", reason: "line 2"},
		{name: "Empty", text: "# nothing\n", reason: "there is no key"},
		{name: "Passphrase", text: "correct horse battery staple", reason: "line 1: must be 32 random bytes"},
		{name: "Short", text: base64.StdEncoding.EncodeToString(make([]byte, 16)), reason: "must be 32 random bytes"},
		{name: "Zeros", text: base64.StdEncoding.EncodeToString(make([]byte, 32)), reason: "all of its bytes are equal"},
		{name: "Twice", text: first + "\n" + first, reason: "line 2: the key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := parseMasters(c.text)
			if c.reason != "" {
				if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), c.reason) {
					t.Fatalf("error %v, want %q", err, c.reason)
				}
				for line := range strings.Lines(c.text) {
					if line = strings.TrimSpace(line); len(line) > 8 && line[0] != '#' && strings.Contains(err.Error(), line) {
						t.Errorf("error %q shows the key", err)
					}
				}
				return
			}
			if err != nil || len(m.keys) != c.keys || m.off != c.off {
				t.Fatalf("%+v, %v", m, err)
			}
		})
	}
}

// TestSealedValues checks that a value opens at its place with its key only, and that no two are equal.
func TestSealedValues(t *testing.T) {
	key := newKey("0123456789ab", "master", bytes.Repeat([]byte{1, 2}, 16))
	other := newKey("0123456789ab", "master", bytes.Repeat([]byte{1, 3}, 16))
	p := Place{Column: "webhooks.secret", Row: "h1"}
	text := key.Seal(p, []byte("value"))
	if again := key.Seal(p, []byte("value")); again == text {
		t.Error("the same value gives the same text")
	}
	id, rest, ok := parseSealed(text)
	if !ok || id != key.id {
		t.Fatalf("parseSealed(%q): %q, %v", text, id, ok)
	}
	if b, err := key.box.open(rest, p.context()); err != nil || string(b) != "value" {
		t.Fatalf("%q, %v", b, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another row":    func() ([]byte, error) { return key.box.open(rest, Place{p.Column, "h2"}.context()) },
		"another column": func() ([]byte, error) { return key.box.open(rest, Place{"access_keys.key", p.Row}.context()) },
		"a data key":     func() ([]byte, error) { return key.box.open(rest, wrapContext("h1")) },
		"another key":    func() ([]byte, error) { return other.box.open(rest, p.context()) },
		"a changed text": func() ([]byte, error) { return key.box.open("A"+rest[1:], p.context()) },
		"a shorter text": func() ([]byte, error) { return key.box.open(rest[:8], p.context()) },
		"no text":        func() ([]byte, error) { return key.box.open("", p.context()) },
		"no base64":      func() ([]byte, error) { return key.box.open("%", p.context()) },
	} {
		if b, err := open(); err == nil && !(name == "a changed text" && rest[0] == 'A') {
			t.Errorf("%s opens it: %q", name, b)
		}
	}
	var none *Key
	if got := none.Seal(p, []byte("value")); got != "value" {
		t.Errorf("without a key: %q", got)
	}
	if key.Seal(p, nil) != "" {
		t.Error("an empty value is encrypted")
	}
	digest := key.Digest([]byte("a"))
	if again := key.Digest([]byte("a")); again != digest || digest == other.Digest([]byte("a")) {
		t.Error("the digest is not one of the value and the key")
	}
}
