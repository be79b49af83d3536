package model

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// state is what an Access keeps for itself.
type state struct {
	once   sync.Once
	ledger Ledger
	holds  *Holds
	client *http.Client
	inHand inHand

	mu    sync.Mutex
	spent Spend // guarded by mu
}

// ready makes what was left open.
func (a *Access) ready() {
	a.state.once.Do(func() {
		s := &a.state
		s.inHand.most = mostOfOne
		if s.ledger = a.Ledger; s.ledger == nil {
			s.ledger = NewLedger()
		}
		s.holds = &Holds{}
		if l, ok := s.ledger.(interface{ shared() *Holds }); ok {
			s.holds = l.shared()
		}
		c := a.Client
		if c == nil {
			c = NewClient()
		}
		own := *c
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key goes nowhere else
		own.Timeout, own.Jar = 0, nil
		s.client = &own
	})
}

// NewClient returns a client that many an Access may share, and its
// connections with it.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // none for loopback
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // what is counted is what came
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

func (a *Access) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// Spent returns what this access was used for.
func (a *Access) Spent() Spend {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	return a.state.spent
}

// usual is how long an API may say nothing.
const usual = 10 * time.Minute

func (c *Connector) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return usual
}

// resolve returns the model that is asked for one that was named.
func (a *Access) resolve(name string) (string, *dialect.Error) {
	if to, ok := a.Aliases[name]; ok {
		name = to
	}
	c := &a.Connector
	allowed := name != "" && (name == c.Model || slices.Contains(c.Models, name) || slices.Contains(c.Models, "*"))
	switch {
	case allowed:
		return name, nil
	case c.Model != "":
		return c.Model, nil
	case name == "":
		return "", &dialect.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "atoll: connector " + c.Name + ": no model is named"}
	}
	return "", &dialect.Error{Status: http.StatusForbidden, Code: "permission", Message: fmt.Sprintf("atoll: connector %s: the model %q is not allowed", c.Name, name)}
}

// models are those that may be asked for, by name.
func (a *Access) models() []string {
	var list []string
	add := func(name string) {
		if name != "" && name != "*" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	add(a.Connector.Model)
	for _, m := range a.Connector.Models {
		add(m)
	}
	n := len(list)
	for alias := range a.Aliases {
		add(alias)
	}
	slices.Sort(list[n:])
	return list
}

// base is the URL of the connector's API.
func (c *Connector) base() string {
	if c.Base != "" {
		return c.Base
	}
	switch c.API {
	case dialect.Anthropic:
		return "https://api.anthropic.com"
	case dialect.OpenAI, dialect.Responses:
		return "https://api.openai.com/v1"
	case dialect.Gemini:
		return "https://generativelanguage.googleapis.com/v1beta"
	}
	return ""
}

// first reports whether the API is that of the dialect's own makers.
func (c *Connector) first() bool {
	u, err := url.Parse(c.base())
	if err != nil {
		return false
	}
	switch h := u.Hostname(); c.API {
	case dialect.Anthropic:
		return h == "api.anthropic.com"
	case dialect.OpenAI, dialect.Responses:
		return h == "api.openai.com"
	case dialect.Gemini:
		return h == "generativelanguage.googleapis.com"
	}
	return false
}

// failure makes an *Error of whatever went wrong; secrets are taken out.
func (a *Access) failure(err error) *dialect.Error {
	var e *dialect.Error
	if errors.As(err, &e) {
		c := *e
		c.Message = a.Connector.redact(c.Message)
		if c.Code == "authentication" { // some APIs tell half of the key
			c.Message = "atoll: connector " + a.Connector.Name + ": the API refused its key"
		}
		return &c
	}
	if t := (interface{ Timeout() bool })(nil); errors.As(err, &t) && t.Timeout() {
		return &dialect.Error{Status: http.StatusGatewayTimeout, Code: "timeout", Message: a.Connector.redact("atoll: connector " + a.Connector.Name + ": " + err.Error())}
	}
	return &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: a.Connector.redact("atoll: connector " + a.Connector.Name + ": " + err.Error())}
}

// leastSecret is how long a secret is at least, so that words are not taken for one.
const leastSecret = 6

// secrets are what must not be shown.
func (c *Connector) secrets() []string {
	var list []string
	add := func(s string) {
		if len(s) >= leastSecret {
			list = append(list, s)
		}
	}
	add(c.Key)
	for name, v := range c.Headers {
		if isSecretHeader(name) {
			add(v)
			_, token, _ := strings.Cut(v, " ")
			add(token)
		}
	}
	return list
}

func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "key", "token", "secret", "cookie"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// redact takes secrets out of a text.
func (c *Connector) redact(s string) string {
	for _, secret := range c.secrets() {
		s = strings.ReplaceAll(s, secret, "***")
	}
	return s
}
