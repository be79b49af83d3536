package server

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestContextNames(t *testing.T) {
	for host, want := range map[string]string{
		"https://Atoll.Example.com:8484/x": "atoll.example.com-8484-x", "unix:///run/atoll.sock": "run-atoll.sock",
		"https://[::1]": "1", "http://local": "server", "https://" + strings.Repeat("a", 100): strings.Repeat("a", 63),
	} {
		got := contextName(host)
		if got != want || atoll.CheckName(got) != nil {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
