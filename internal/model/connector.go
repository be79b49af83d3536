package model

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// state is the internal state of an Access.
type state struct {
	once   sync.Once
	ledger Ledger
	holds  *Reservations
	client *http.Client
	memory bodyMemory

	numbers atomic.Int64 // of requests

	mu    sync.Mutex
	spent Usage // guarded by mu
}

// prepareOnce initializes the state, once.
func (a *Access) prepareOnce() {
	a.state.once.Do(func() {
		s := &a.state
		s.memory.max = maxAccessBytes
		if s.ledger = a.Ledger; s.ledger == nil {
			s.ledger = NewLedger()
		}
		s.holds = &Reservations{}
		if l, ok := s.ledger.(interface{ sharedReservations() *Reservations }); ok {
			s.holds = l.sharedReservations()
		}
		c := a.Client
		if c == nil {
			c = NewClient()
		}
		own := *c
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key is sent nowhere else
		own.Timeout, own.Jar = 0, nil
		s.client = &own
	})
}

// NewClient returns a client for several Accesses, which then share its connections.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // none for loopback
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // usage is read from the bytes
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

func (a *Access) currentTime() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// Usage returns the usage of this Access.
func (a *Access) Usage() Usage {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	return a.state.spent
}

// defaultTimeout is how long an API may be silent.
const defaultTimeout = 10 * time.Minute

func (c *Connector) responseTimeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return defaultTimeout
}

// resolveModel returns the model to use for a requested name.
func (a *Access) resolveModel(name string) (string, *dialect.Error) {
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

// modelNames returns the names that may be requested.
func (a *Access) modelNames() []string {
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

// baseURL returns the URL of the connector's API.
func (c *Connector) baseURL() string {
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

// isFirstParty reports whether the API is that of the dialect's own company.
func (c *Connector) isFirstParty() bool {
	u, err := url.Parse(c.baseURL())
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

// toError converts any error to an *Error without secrets.
func (a *Access) toError(err error) *dialect.Error {
	var e *dialect.Error
	if errors.As(err, &e) {
		c := *e
		c.Message = a.Connector.redactText(c.Message)
		if c.Code == "authentication" { // some APIs print a part of the key
			c.Message = "atoll: connector " + a.Connector.Name + ": the API refused its key"
		}
		return &c
	}
	if t := (interface{ Timeout() bool })(nil); errors.As(err, &t) && t.Timeout() {
		return &dialect.Error{Status: http.StatusGatewayTimeout, Code: "timeout", Message: a.Connector.redactText("atoll: connector " + a.Connector.Name + ": " + err.Error())}
	}
	return &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: a.Connector.redactText("atoll: connector " + a.Connector.Name + ": " + err.Error())}
}

// minSecret is the shortest redacted secret, so that common words are not redacted.
const minSecret = 6

// secretValues returns the texts to redact.
func (c *Connector) secretValues() []string {
	var list []string
	add := func(s string) {
		if len(s) >= minSecret {
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

// redactText removes secrets from a text.
func (c *Connector) redactText(s string) string {
	for _, secret := range c.secretValues() {
		s = strings.ReplaceAll(s, secret, "***")
	}
	return s
}
