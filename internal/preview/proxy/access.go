package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	// AccessParam is the URL parameter that holds a link's token.
	AccessParam = "atoll-access"
	// accessHeader is the header in which programs send the token.
	accessHeader = "Atoll-Access"
	// plainCookie and secureCookie hold the cookie token that a link was exchanged for;
	// only the prefix __Host- keeps other hosts from setting it.
	plainCookie  = "atoll-access"
	secureCookie = "__Host-atoll-access"

	// minKey is the minimum length of a key in bytes.
	minKey = 32
	// maxToken limits the bytes of a token.
	maxToken = 1024
	// maxTokens limits the tokens of one request that are checked.
	maxTokens = 4
)

// Access admits requests with a signed link. A link is exchanged for a cookie of the
// host name it was opened at.
type Access struct {
	// Key returns the key with a name, at least 32 random bytes. A token signed
	// with a key that no longer exists is invalid: removing the key
	// revokes it.
	Key func(name string) ([]byte, bool)
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu     sync.Mutex
	active map[string]map[*context.CancelFunc]bool // requests in flight by key; guarded by mu
}

// EndRequests ends the requests and streams that were admitted with a key. Call it
// after removing that key.
func (a *Access) EndRequests(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for end := range a.active[key] {
		(*end)()
	}
}

// Recheck ends the requests and streams whose key no longer exists. Call it regularly
// if other processes remove keys. It takes
// as long as the slowest key lookup.
func (a *Access) Recheck() {
	a.mu.Lock()
	keys := slices.Collect(maps.Keys(a.active))
	a.mu.Unlock()
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			if _, ok := a.Key(key); !ok {
				a.EndRequests(key)
			}
		})
	}
	wg.Wait()
}

// trackRequest cancels a request when its ticket expires or its key is removed. The
// caller calls done when the request has ended.
func (a *Access) trackRequest(t ticket, end context.CancelFunc) (done func()) {
	timer := time.AfterFunc(time.Unix(t.Until, 0).Sub(a.currentTime()), end)
	a.mu.Lock()
	if a.active == nil {
		a.active = make(map[string]map[*context.CancelFunc]bool)
	}
	if a.active[t.Key] == nil {
		a.active[t.Key] = make(map[*context.CancelFunc]bool)
	}
	a.active[t.Key][&end] = true
	a.mu.Unlock()
	if _, ok := a.Key(t.Key); !ok { // removed since the check
		end()
	}
	return func() {
		timer.Stop()
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.active[t.Key], &end); len(a.active[t.Key]) == 0 {
			delete(a.active, t.Key)
		}
	}
}

// Grant is the permission in a link: all ports of one sandbox.
type Grant struct {
	Key           string    // name of the key that signs it
	Project       string    // as in host names
	Sandbox       string    // id: another sandbox of that name is not admitted
	LinkExpires   time.Time // when the link expires
	CookieExpires time.Time // when the cookie of the link expires
}

// ticket is the signed content of a token.
type ticket struct {
	Kind    string `json:"t"` // "link" or "cookie": neither is accepted as the other
	Key     string `json:"k"`
	Project string `json:"p"`
	Sandbox string `json:"s"`
	Open    int64  `json:"o,omitempty"` // Unix seconds
	Until   int64  `json:"u"`
}

const (
	kindLink   = "link"
	kindCookie = "cookie"
)

// Sign returns the token of a link: the value of the parameter AccessParam, or of
// the header Atoll-Access. An incomplete grant is ErrInvalid; a missing key
// is ErrNotFound.
func (a *Access) Sign(g Grant) (string, error) {
	if !isLabel(g.Project) || g.Sandbox == "" || g.Key == "" || g.LinkExpires.IsZero() || g.CookieExpires.Before(g.LinkExpires) {
		return "", fmt.Errorf("%w: access to %q: a key, the project, the sandbox and both times are needed", atoll.ErrInvalid, g.Project)
	}
	return a.signTicket(ticket{kindLink, g.Key, g.Project, g.Sandbox, g.LinkExpires.Unix(), g.CookieExpires.Unix()})
}

func (a *Access) signTicket(t ticket) (string, error) {
	key, ok := a.Key(t.Key)
	if !ok {
		return "", fmt.Errorf("%w: access key %q", atoll.ErrNotFound, t.Key)
	}
	if len(key) < minKey {
		return "", fmt.Errorf("%w: access key %q has %d bytes: %d are needed", atoll.ErrInvalid, t.Key, len(key), minKey)
	}
	b, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	token := encodeBase64(b) + "." + encodeBase64(computeMAC(key, b))
	if len(token) > maxToken {
		return "", fmt.Errorf("%w: access to %q: the names are too long", atoll.ErrInvalid, t.Project)
	}
	return token, nil
}

func encodeBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func computeMAC(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("atoll proxy access 1\x00"))
	h.Write(b)
	return h.Sum(nil)
}

// Reasons why a token is refused. Responses reveal nothing else.
var (
	errForged  = errors.New("it was not issued here")
	errExpired = errors.New("it has expired")
)

// verifyToken verifies a token of one kind and returns its ticket. Before the signature is
// checked it uses only the key name of the ticket.
func (a *Access) verifyToken(token, kind, project string) (ticket, error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // base64 ignores these
		return ticket{}, errForged
	}
	text, sum, _ := strings.Cut(token, ".")
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return ticket{}, errForged
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(sum)
	if err != nil {
		return ticket{}, errForged
	}
	var t ticket
	if json.Unmarshal(b, &t) != nil {
		return ticket{}, errForged
	}
	key, ok := a.Key(t.Key)
	if !ok || len(key) < minKey {
		return ticket{}, errForged
	}
	if !hmac.Equal(given, computeMAC(key, b)) {
		return ticket{}, errForged
	}
	if t.Kind != kind || t.Project != project {
		return ticket{}, errForged
	}
	now := a.currentTime().Unix()
	if now >= t.Until || kind == kindLink && now >= t.Open {
		return ticket{}, errExpired
	}
	return t, nil
}

func (a *Access) currentTime() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// isOwnCookie reports whether a cookie's name belongs to the proxy.
func isOwnCookie(name string) bool {
	return strings.EqualFold(name, plainCookie) || strings.EqualFold(name, secureCookie)
}

// authorizeRequest returns the ticket of a request. It reports false when it has answered: with a page, or with a cookie in exchange for a link.
// It looks nothing up for requests without a valid token, so they can't discover
// which sandboxes exist; nor can they by [Proxy].Admitter, which knows only public ones.
func (p *Proxy) authorizeRequest(w *writer, r *http.Request, tr *routedRequest) (ticket, bool) {
	if token := r.Header.Get(accessHeader); token != "" {
		t, err := p.Access.verifyToken(token, kindLink, tr.name.Project)
		if err != nil {
			p.writeFault(w, r, newNoAccessFault(tr.name, "yours is not valid: "+err.Error()))
			return ticket{}, false
		}
		return t, true
	}
	if token, rest, found := cutParam(r.URL.RawQuery, AccessParam); found {
		p.exchangeLink(w, r, tr, token, rest)
		return ticket{}, false
	}
	name := plainCookie
	if tr.clientScheme == "https" {
		name = secureCookie
	}
	why := "your browser sent none"
	tried := 0
	for _, c := range r.CookiesNamed(name) {
		if tried++; tried > maxTokens {
			break
		}
		t, err := p.Access.verifyToken(c.Value, kindCookie, tr.name.Project)
		if err == nil {
			return t, true
		}
		why = "yours is no longer valid"
	}
	p.writeFault(w, r, newNoAccessFault(tr.name, why))
	return ticket{}, false
}

// exchangeLink sets a cookie for a link and redirects to the same URL without the token.
func (p *Proxy) exchangeLink(w *writer, r *http.Request, tr *routedRequest, token, rest string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.writeFault(w, r, newNoAccessFault(tr.name, "a link must be opened with GET: programs send it in the header "+accessHeader))
		return
	}
	t, err := p.Access.verifyToken(token, kindLink, tr.name.Project)
	if err != nil {
		p.writeFault(w, r, newNoAccessFault(tr.name, "yours is not valid: "+err.Error()))
		return
	}
	t.Kind, t.Open = kindCookie, 0
	value, err := p.Access.signTicket(t)
	if err != nil { // the key was removed meanwhile
		p.writeFault(w, r, newNoAccessFault(tr.name, "yours is no longer valid"))
		return
	}
	until := time.Unix(t.Until, 0)
	c := &http.Cookie{
		Name: plainCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Expires: until, MaxAge: max(1, int(until.Sub(p.Access.currentTime())/time.Second)),
	}
	if tr.clientScheme == "https" {
		c.Name, c.Secure = secureCookie, true
	}
	http.SetCookie(w, c)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	to := tr.clientScheme + "://" + r.Host + r.URL.EscapedPath() // whole: "//x" alone would be another host
	if rest != "" {
		to += "?" + rest
	}
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// cutParam removes a parameter from a query and leaves the rest unchanged.
func cutParam(query, param string) (token, rest string, found bool) {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(key); err != nil || k != param {
			kept = append(kept, part)
			continue
		}
		if !found {
			token, _ = url.QueryUnescape(value) // an invalid escape yields no token
		}
		found = true
	}
	return token, strings.Join(kept, "&"), found
}
