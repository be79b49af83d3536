package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// cleanRequest removes what a client has no say in: who it is to those inside.
// Names with '_' count as with '-', as CGI and WSGI read them.
func cleanRequest(h http.Header) {
	for name := range h {
		plain := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if strings.HasPrefix(plain, "X-Forwarded-") || plain == "Forwarded" || plain == "X-Real-Ip" || plain == accessHeader {
			delete(h, name)
		}
	}
	cleanCookies(h)
}

// cleanCookies removes our own cookies, and leaves the others as they came.
func cleanCookies(h http.Header) {
	var list []string
	for _, line := range h["Cookie"] {
		parts := strings.Split(line, ";")
		kept := slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
			name, _, _ := strings.Cut(part, "=")
			return isOurs(strings.TrimSpace(name))
		})
		if len(kept) == len(parts) {
			list = append(list, line)
		} else if line = strings.TrimSpace(strings.Join(kept, ";")); line != "" {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = list
}

// steering are fields of answers by which those behind a proxy move the proxy
// before it, or the browser to what is beside it. Sandboxes have no say there.
var steering = []string{
	"Alt-Svc",                                // another server for this origin
	"X-Accel-Redirect", "X-Accel-Limit-Rate", // nginx: its own files
	"X-Accel-Expires", "X-Accel-Charset",
	"X-Sendfile", "X-Sendfile-Type", "X-Lighttpd-Send-File", "X-Lighttpd-Send-Tempfile", "X-Reproxy-Url", "X-Litespeed-Location",
}

// cleanAnswer removes from the head of an answer what reaches further than the
// host name that it was asked by.
func cleanAnswer(h http.Header, host string) {
	for name := range h {
		if slices.Contains(steering, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))) {
			delete(h, name)
		}
	}
	var cookies []string
	for _, c := range h["Set-Cookie"] {
		if c, ok := ownCookie(c, host); ok {
			cookies = append(cookies, c)
		}
	}
	if len(cookies) == 0 {
		delete(h, "Set-Cookie")
		return
	}
	h["Set-Cookie"] = cookies
}

// ownCookie makes a cookie that a sandbox sets one of its host only: one for
// other hosts too is dropped, and so is one with a name of ours.
func ownCookie(cookie, host string) (string, bool) {
	parts := strings.Split(cookie, ";")
	name, _, ok := strings.Cut(parts[0], "=")
	if name = strings.TrimSpace(name); !ok || name == "" || isOurs(name) {
		return "", false // without a name, its value could pass for one
	}
	kept := parts[:1]
	for _, attr := range parts[1:] {
		key, value, _ := strings.Cut(attr, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "domain") {
			kept = append(kept, attr)
			continue
		}
		if d := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(value), ".")); d != "" && d != host {
			return "", false
		}
	}
	return strings.Join(kept, ";"), true
}

// hostOnly is a Host without its port.
func hostOnly(host string) string {
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// sameProject reports whether a request that acts, or opens a stream both ways,
// comes from a page of the same project, or from no page at all. Pages of other
// sandboxes and of the web may only link to it.
func (p *Proxy) sameProject(r *http.Request, tr *trip) bool {
	stream := r.Header.Get("Upgrade") != ""
	if !stream && (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "same-origin" || site == "none" {
		return true
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return site == ""
	}
	_, host, ok := strings.Cut(origins[0], "://")
	from, ours := p.Names.Parse(host)
	return ok && ours && len(origins) == 1 && from.Project == tr.name.Project && from.Domain == tr.name.Domain
}
