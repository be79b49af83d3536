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
	// AccessParam is the parameter of a URL that carries a link's token.
	AccessParam = "atoll-access"
	// accessHeader carries it where programs come in.
	accessHeader = "Atoll-Access"
	// plainCookie and secureCookie hold what a link was changed into; only the
	// browser's own word for it, __Host-, keeps others from setting it.
	plainCookie  = "atoll-access"
	secureCookie = "__Host-atoll-access"

	// minKey is how many bytes a key has at least.
	minKey = 32
	// maxToken bounds a token's bytes.
	maxToken = 1024
	// maxTokens bounds how many of one request are looked at.
	maxTokens = 4
)

// Access lets in who has a signed link. A link is changed into a cookie of the
// one host name it was opened at.
type Access struct {
	// Key returns the key of a name, at least 32 random bytes. What was signed
	// with a key that is not there any more opens nothing: so access is taken
	// back.
	Key func(name string) ([]byte, bool)
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu    sync.Mutex
	under map[string]map[*context.CancelFunc]bool // requests under way by key; guarded by mu
}

// Revoked ends the requests and streams that came in by a key. It is for those
// who have just taken that key away.
func (a *Access) Revoked(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for end := range a.under[key] {
		(*end)()
	}
}

// Recheck ends the requests and streams that came in by keys that are not there
// any more. It is for those who are not told which keys others take away. It takes
// as long as the slowest key.
func (a *Access) Recheck() {
	a.mu.Lock()
	keys := slices.Collect(maps.Keys(a.under))
	a.mu.Unlock()
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			if _, ok := a.Key(key); !ok {
				a.Revoked(key)
			}
		})
	}
	wg.Wait()
}

// bound ends a request when its ticket does, or its key is taken away. The
// caller calls done when it is over.
func (a *Access) bound(t ticket, end context.CancelFunc) (done func()) {
	timer := time.AfterFunc(time.Unix(t.Until, 0).Sub(a.now()), end)
	a.mu.Lock()
	if a.under == nil {
		a.under = make(map[string]map[*context.CancelFunc]bool)
	}
	if a.under[t.Key] == nil {
		a.under[t.Key] = make(map[*context.CancelFunc]bool)
	}
	a.under[t.Key][&end] = true
	a.mu.Unlock()
	if _, ok := a.Key(t.Key); !ok { // taken away since it was looked at
		end()
	}
	return func() {
		timer.Stop()
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.under[t.Key], &end); len(a.under[t.Key]) == 0 {
			delete(a.under, t.Key)
		}
	}
}

// Grant is what a link gives: all ports of one sandbox.
type Grant struct {
	Key     string    // name of the key that signs it
	Project string    // as it stands in host names
	Sandbox string    // id: another sandbox of that name is not opened
	Open    time.Time // until when the link can be opened
	Until   time.Time // until when what it opened stays open
}

// ticket is what is signed.
type ticket struct {
	Kind    string `json:"t"` // "link" or "cookie": one never passes for the other
	Key     string `json:"k"`
	Project string `json:"p"`
	Sandbox string `json:"s"`
	Open    int64  `json:"o,omitempty"` // Unix seconds
	Until   int64  `json:"u"`
}

const (
	linkKind   = "link"
	cookieKind = "cookie"
)

// Sign makes the token of a link: the value of the parameter AccessParam, or of
// the field Atoll-Access. A grant that lacks something is ErrInvalid; a key
// that is not there, ErrNotFound.
func (a *Access) Sign(g Grant) (string, error) {
	if !isLabel(g.Project) || g.Sandbox == "" || g.Key == "" || g.Open.IsZero() || g.Until.Before(g.Open) {
		return "", fmt.Errorf("%w: access to %q: a key, the project, the sandbox and both times are needed", atoll.ErrInvalid, g.Project)
	}
	return a.sign(ticket{linkKind, g.Key, g.Project, g.Sandbox, g.Open.Unix(), g.Until.Unix()})
}

func (a *Access) sign(t ticket) (string, error) {
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
	token := encode(b) + "." + encode(mac(key, b))
	if len(token) > maxToken {
		return "", fmt.Errorf("%w: access to %q: its names are too long", atoll.ErrInvalid, t.Project)
	}
	return token, nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func mac(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("atoll proxy access 1\x00"))
	h.Write(b)
	return h.Sum(nil)
}

// Why a token opens nothing. All that strangers learn is that it does not.
var (
	errForged  = errors.New("it is not one of ours")
	errExpired = errors.New("it has expired")
)

// verify reads a token of one kind. Nothing of it is believed before its
// signature, except which key to look at.
func (a *Access) verify(token, kind, project string) (ticket, error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // which base64 overlooks
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
	if !hmac.Equal(given, mac(key, b)) {
		return ticket{}, errForged
	}
	if t.Kind != kind || t.Project != project {
		return ticket{}, errForged
	}
	now := a.now().Unix()
	if now >= t.Until || kind == linkKind && now >= t.Open {
		return ticket{}, errExpired
	}
	return t, nil
}

func (a *Access) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// isOurs reports whether a cookie's name is one of the proxy's own.
func isOurs(name string) bool {
	return strings.EqualFold(name, plainCookie) || strings.EqualFold(name, secureCookie)
}

// admit returns the ticket of a request. It reports false when it has answered: with a page, or with a cookie in exchange for a link.
// Nothing is looked up for those who have no valid token, so they can't find
// out which sandboxes there are.
func (p *Proxy) admit(w *writer, r *http.Request, tr *trip) (ticket, bool) {
	if token := r.Header.Get(accessHeader); token != "" {
		t, err := p.Access.verify(token, linkKind, tr.name.Project)
		if err != nil {
			p.refuse(w, r, noAccess(tr.name, "yours does not open it: "+err.Error()))
			return ticket{}, false
		}
		return t, true
	}
	if token, rest, found := cutParam(r.URL.RawQuery); found {
		p.exchange(w, r, tr, token, rest)
		return ticket{}, false
	}
	name := plainCookie
	if tr.scheme == "https" {
		name = secureCookie
	}
	why := "your browser has shown none"
	tried := 0
	for _, c := range r.CookiesNamed(name) {
		if tried++; tried > maxTokens {
			break
		}
		t, err := p.Access.verify(c.Value, cookieKind, tr.name.Project)
		if err == nil {
			return t, true
		}
		why = "yours does not open it any more"
	}
	p.refuse(w, r, noAccess(tr.name, why))
	return ticket{}, false
}

// exchange gives a cookie for a link, and leads to the same URL without it.
func (p *Proxy) exchange(w *writer, r *http.Request, tr *trip, token, rest string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.refuse(w, r, noAccess(tr.name, "links are opened, not sent to: programs show theirs in the field "+accessHeader))
		return
	}
	t, err := p.Access.verify(token, linkKind, tr.name.Project)
	if err != nil {
		p.refuse(w, r, noAccess(tr.name, "yours does not open it: "+err.Error()))
		return
	}
	t.Kind, t.Open = cookieKind, 0
	value, err := p.Access.sign(t)
	if err != nil { // the key has just been taken away
		p.refuse(w, r, noAccess(tr.name, "yours does not open it any more"))
		return
	}
	until := time.Unix(t.Until, 0)
	c := &http.Cookie{
		Name: plainCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Expires: until, MaxAge: max(1, int(until.Sub(p.Access.now())/time.Second)),
	}
	if tr.scheme == "https" {
		c.Name, c.Secure = secureCookie, true
	}
	http.SetCookie(w, c)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	to := tr.scheme + "://" + r.Host + r.URL.EscapedPath() // whole: "//x" alone would be another host
	if rest != "" {
		to += "?" + rest
	}
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// cutParam takes the token out of a query, which is else left as it came.
func cutParam(query string) (token, rest string, found bool) {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(key); err != nil || k != AccessParam {
			kept = append(kept, part)
			continue
		}
		if !found {
			token, _ = url.QueryUnescape(value) // what can't be read is no token
		}
		found = true
	}
	return token, strings.Join(kept, "&"), found
}
