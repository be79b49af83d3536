package upstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestConfigReplacesEnvironment: a configured proxy is used in place of the one of the environment, and
// none is used if that is configured.
func TestConfigReplacesEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://of-environment.corp:3128")
	t.Setenv("NO_PROXY", "near.test")
	for _, c := range []struct {
		config Config
		host   string
		want   string // "": none
	}{
		{Config{}, "far.test", "of-environment.corp:3128"},
		{Config{}, "near.test", ""},
		{Config{Proxy: "http://configured.corp:8080"}, "far.test", "configured.corp:8080"},
		{Config{Proxy: "http://configured.corp:8080"}, "near.test", "configured.corp:8080"},
		{Config{Proxy: "http://configured.corp:8080", NoProxy: []string{".near.test", "10.0.0.0/8"}}, "a.near.test", ""},
		{Config{Proxy: "http://configured.corp:8080", NoProxy: []string{".near.test", "10.0.0.0/8"}}, "10.1.2.3", ""},
		{Config{Proxy: None}, "far.test", ""},
	} {
		proxy, err := c.config.Compile().ProxyFor(c.host, 443)
		got := ""
		if proxy != nil {
			got = proxy.Host
		}
		if err != nil || got != c.want {
			t.Errorf("%+v, %s: %q, %v; want %q", c.config, c.host, got, err, c.want)
		}
	}
}

// TestCheckNamesNoPassword: a configuration that is no proxy is refused before a sandbox uses it, and the
// error does not have the password.
func TestCheckNamesNoPassword(t *testing.T) {
	for _, text := range []string{"", None, "http://proxy.corp:3128", "http://user:pa55@proxy.corp:3128/", "http://10.1.2.3"} {
		if err := (Config{Proxy: text}).Check(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, c := range []Config{
		{Proxy: "proxy.corp:3128"},
		{Proxy: "https://user:pa55@proxy.corp"},
		{Proxy: "socks5://proxy.corp:1080"},
		{Proxy: "http://user:pa55@%zz"},
		{Proxy: "http://"},
		{Proxy: "http://proxy.corp:0"},
		{Proxy: "http://user:pa55@proxy.corp/path"},
		{NoProxy: []string{"a.test"}},
	} {
		if err := c.Check(); !errors.Is(err, atoll.ErrInvalid) || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
