package proxy_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// ring is a ring of keys whose clock the test winds.
type ring struct {
	mu   sync.Mutex
	keys map[string][]byte
	at   time.Time
}

func (r *ring) key(name string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.keys[name]
	return k, ok
}

func (r *ring) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func newRing() (*ring, *proxy.Access) {
	r := &ring{keys: map[string][]byte{"k1": bytes.Repeat([]byte{1}, 32), "k2": bytes.Repeat([]byte{2}, 32), "short": {1}}, at: time.Now()}
	return r, &proxy.Access{Key: r.key, Now: r.now}
}

func (r *ring) grant() proxy.Grant {
	return proxy.Grant{Key: "k1", Project: "web", Sandbox: "s1", LinkExpires: r.now().Add(10 * time.Minute), CookieExpires: r.now().Add(time.Hour)}
}

func sign(t testing.TB, a *proxy.Access, g proxy.Grant) string {
	t.Helper()
	token, err := a.Sign(g)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestLinkIsExchangedForCookie(t *testing.T) {
	r, a := newRing()
	_, c := newProxy(t, &proxy.Proxy{Access: a})
	token := sign(t, a, r.grant())
	res, body := get(t, c, "GET", "http://web.localhost/", "Accept: text/html")
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "You need a link") {
		t.Fatalf("without a link: %s", res.Status)
	}
	res, _ = get(t, c, "GET", "http://web.localhost//evil.com/a%2Fb?x=1&"+proxy.AccessParam+"="+token+"&y=%20")
	if at := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || at != "http://web.localhost//evil.com/a%2Fb?x=1&y=%20" {
		t.Fatalf("%s to %s", res.Status, at)
	}
	cookies := res.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Domain != "" || cookies[0].Path != "/" || cookies[0].Secure {
		t.Fatalf("cookies %v", res.Header["Set-Cookie"])
	}
	ours := cookies[0].Name + "=" + cookies[0].Value
	res, body = get(t, c, "GET", "http://web.localhost/x?q=1", "Cookie: theirs=1; "+ours+"; more=a b")
	if h := ears(t, body); res.StatusCode != http.StatusOK || h.Header.Get("Cookie") != "theirs=1; more=a b" || strings.Contains(body, cookies[0].Value) {
		t.Errorf("inside was heard %+v", h)
	}
	_, body = get(t, c, "GET", "http://web.localhost/", "Cookie: "+ours)
	if h := ears(t, body); h.Header["Cookie"] != nil {
		t.Errorf("inside was heard %+v", h)
	}
	// Another port of the project is opened by the same grant, another project is not.
	if res, _ = get(t, c, "GET", "http://3000-web.localhost/", "Cookie: "+ours); res.StatusCode != http.StatusOK {
		t.Errorf("another port: %s", res.Status)
	}
	if res, _ = get(t, c, "GET", "http://other.localhost/", "Cookie: "+ours); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("another project: %s", res.Status)
	}
	// Programs show the link itself.
	_, body = get(t, c, "POST", "http://web.localhost/", "Atoll-Access: "+token)
	if h := ears(t, body); h.Header["Atoll-Access"] != nil || strings.Contains(body, token) {
		t.Errorf("inside was heard %+v", h)
	}
	if res, _ = get(t, c, "POST", "http://web.localhost/?"+proxy.AccessParam+"="+token); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a link that is sent to: %s", res.Status)
	}
}

func TestSecureCookieBehindTLS(t *testing.T) {
	r, a := newRing()
	_, c := newProxy(t, &proxy.Proxy{Access: a, BehindProxy: true})
	res, _ := get(t, c, "GET", "http://web.localhost/?"+proxy.AccessParam+"="+sign(t, a, r.grant()), "X-Forwarded-Proto: https")
	cookies := res.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "__Host-atoll-access" || !cookies[0].Secure || !strings.HasPrefix(res.Header.Get("Location"), "https://web.localhost/") {
		t.Fatalf("%v", res.Header)
	}
	// What a neighbour could have set, the plain name, counts for nothing here.
	if res, _ = get(t, c, "GET", "http://web.localhost/", "X-Forwarded-Proto: https", "Cookie: atoll-access="+cookies[0].Value); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the plain cookie: %s", res.Status)
	}
	if res, _ = get(t, c, "GET", "http://web.localhost/", "X-Forwarded-Proto: https", "Cookie: __Host-atoll-access="+cookies[0].Value); res.StatusCode != http.StatusOK {
		t.Errorf("the secure one: %s", res.Status)
	}
}

func TestAccessIsRefused(t *testing.T) {
	r, a := newRing()
	p := &proxy.Proxy{Access: a}
	_, c := newProxy(t, p)
	good := sign(t, a, r.grant())
	text, sum, _ := strings.Cut(good, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(text)
	changed := func(from, to string) string {
		return base64.RawURLEncoding.EncodeToString(bytes.Replace(payload, []byte(from), []byte(to), 1)) + "." + sum
	}
	other := r.grant()
	other.Project = "other"
	elsewhere := r.grant()
	elsewhere.Sandbox = "s0"
	forged := hmac.New(sha256.New, make([]byte, 32))
	forged.Write(payload)
	for name, token := range map[string]string{
		"empty": "", "no token": "x", "no sum": text, "another sum": text + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 32)), "empty sum": text + ".",
		"own key": text + "." + base64.RawURLEncoding.EncodeToString(forged.Sum(nil)), "padded": good + "=", "longer": good + "A", "spaces": " " + good, "newline": text + "\n." + sum,
		"another's name": changed(`"web"`, `"wex"`), "longer life": changed(`"u":1`, `"u":9`), "another key": changed(`"k1"`, `"k2"`), "short key": changed(`"k1"`, `"short"`),
		"unknown key": changed(`"k1"`, `"k9"`), "as a cookie": changed(`"link"`, `"cookie"`), "other project": sign(t, a, other), "removed sandbox": sign(t, a, elsewhere), "long": strings.Repeat("A", 1<<15),
	} {
		for _, how := range []string{"header", "link", "cookie"} {
			var res *http.Response
			switch how {
			case "header":
				if token == "" || strings.ContainsAny(token, "\n") {
					continue
				}
				res, _ = get(t, c, "GET", "http://web.localhost/", "Atoll-Access: "+strings.TrimSpace(token))
				if token == " "+good {
					continue // HTTP trims
				}
			case "link":
				res, _ = get(t, c, "GET", "http://web.localhost/?"+proxy.AccessParam+"="+url.QueryEscape(token))
				if token == sign(t, a, elsewhere) {
					continue // it is signed; the cookie opens nothing, as below
				}
			case "cookie":
				if strings.ContainsAny(token, "\n") {
					continue
				}
				res, _ = get(t, c, "GET", "http://web.localhost/", "Cookie: atoll-access="+token)
			}
			if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) > 0 {
				t.Errorf("%s by %s: %s", name, how, res.Status)
			}
		}
	}
	// A link is no cookie, and a cookie no link.
	res, _ := get(t, c, "GET", "http://web.localhost/?"+proxy.AccessParam+"="+good)
	cookie := res.Cookies()[0].Value
	if res, _ := get(t, c, "GET", "http://web.localhost/", "Cookie: atoll-access="+good); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a link as a cookie: %s", res.Status)
	}
	if res, _ := get(t, c, "GET", "http://web.localhost/", "Atoll-Access: "+cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie as a link: %s", res.Status)
	}
	for _, g := range []proxy.Grant{{}, {Key: "k1", Project: "web"}, {Key: "short", Project: "web", Sandbox: "s", LinkExpires: r.at, CookieExpires: r.at}} {
		if _, err := a.Sign(g); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("Sign(%+v): %v", g, err)
		}
	}
	if _, err := a.Sign(proxy.Grant{Key: "none", Project: "web", Sandbox: "s", LinkExpires: r.at, CookieExpires: r.at}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

// Strangers can't find out which sandboxes there are.
func TestNoTokenRevealsNothing(t *testing.T) {
	_, a := newRing()
	_, c := newProxy(t, &proxy.Proxy{Access: a})
	one, here := get(t, c, "GET", "http://web.localhost/")
	two, nowhere := get(t, c, "GET", "http://wax.localhost/")
	one.Header.Del("Date")
	two.Header.Del("Date")
	if here != nowhere || one.StatusCode != two.StatusCode || len(one.Header) != len(two.Header) {
		t.Errorf("one that is there: %s %v %s\none that is not: %s %v %s", one.Status, one.Header, here, two.Status, two.Header, nowhere)
	}
}

func TestAccessEnds(t *testing.T) {
	r, a := newRing()
	_, c := newProxy(t, &proxy.Proxy{Access: a})
	token := sign(t, a, r.grant())
	open := func() (int, string) {
		res, _ := get(t, c, "GET", "http://web.localhost/?"+proxy.AccessParam+"="+token)
		if cs := res.Cookies(); len(cs) == 1 {
			return res.StatusCode, "Cookie: atoll-access=" + cs[0].Value
		}
		return res.StatusCode, ""
	}
	code, cookie := open()
	if code != http.StatusSeeOther {
		t.Fatal(code)
	}
	wind := func(d time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at = r.at.Add(d)
	}
	wind(10 * time.Minute)
	if code, _ := open(); code != http.StatusUnauthorized {
		t.Errorf("a link that is too old: %d", code)
	}
	if res, _ := get(t, c, "GET", "http://web.localhost/", cookie); res.StatusCode != http.StatusOK {
		t.Errorf("its cookie: %s", res.Status)
	}
	wind(50 * time.Minute)
	if res, _ := get(t, c, "GET", "http://web.localhost/", cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("an old cookie: %s", res.Status)
	}
}

// Who takes away a key ends what came in by it, streams too.
func TestRevokedKeyEndsStreams(t *testing.T) {
	r, a := newRing()
	_, c := newProxy(t, &proxy.Proxy{Access: a})
	dial := func(key string) (*websocket.Conn, error) {
		g := r.grant()
		g.Key = key
		ws, _, err := websocket.Dial(t.Context(), "ws://web.localhost/ws", &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{"Atoll-Access": {sign(t, a, g)}}})
		if err == nil {
			t.Cleanup(func() { ws.CloseNow() })
		}
		return ws, err
	}
	one, err := dial("k1")
	if err != nil {
		t.Fatal(err)
	}
	two, err := dial("k2")
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	delete(r.keys, "k1")
	r.mu.Unlock()
	a.EndRequests("k1")
	if _, _, err := one.Read(t.Context()); err == nil {
		t.Error("the stream continues")
	}
	if err := two.Write(t.Context(), websocket.MessageText, []byte("still here")); err != nil {
		t.Error(err)
	}
	if _, b, err := two.Read(t.Context()); err != nil || string(b) != "still here" {
		t.Errorf("the other's stream: %q, %v", b, err)
	}
}
