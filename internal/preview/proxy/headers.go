package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// cleanRequest removes the headers that only the proxy may set.
// Names with '_' count like those with '-', as CGI and WSGI treat them.
func cleanRequest(h http.Header) {
	for name := range h {
		plain := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if strings.HasPrefix(plain, "X-Forwarded-") || plain == "Forwarded" || plain == "X-Real-Ip" || plain == accessHeader {
			delete(h, name)
		}
	}
	cleanCookies(h)
}

// cleanCookies removes the proxy's own cookies and leaves the others unchanged.
func cleanCookies(h http.Header) {
	var list []string
	for _, line := range h["Cookie"] {
		parts := strings.Split(line, ";")
		kept := slices.DeleteFunc(slices.Clone(parts), func(part string) bool {
			name, _, _ := strings.Cut(part, "=")
			return isOwnCookie(strings.TrimSpace(name))
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

// proxyControlHeaders are response headers that control a web server in front of the
// proxy, or redirect the browser's connection. Sandboxes may not send them.
var proxyControlHeaders = []string{
	"Alt-Svc",                                // another server for this origin
	"X-Accel-Redirect", "X-Accel-Limit-Rate", // nginx: its own files
	"X-Accel-Expires", "X-Accel-Charset",
	"X-Sendfile", "X-Sendfile-Type", "X-Lighttpd-Send-File", "X-Lighttpd-Send-Tempfile", "X-Reproxy-Url", "X-Litespeed-Location",
}

// cleanResponse removes headers of a response that affect more than the
// requested host name.
func cleanResponse(h http.Header, host string) {
	for name := range h {
		if slices.Contains(proxyControlHeaders, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))) {
			delete(h, name)
		}
	}
	var cookies []string
	for _, c := range h["Set-Cookie"] {
		if c, ok := restrictCookie(c, host); ok {
			cookies = append(cookies, c)
		}
	}
	if len(cookies) == 0 {
		delete(h, "Set-Cookie")
		return
	}
	h["Set-Cookie"] = cookies
}

// restrictCookie restricts a cookie of a sandbox to its host. It reports false for a cookie
// for other hosts and for one with the name of a proxy cookie.
func restrictCookie(cookie, host string) (string, bool) {
	parts := strings.Split(cookie, ";")
	name, _, ok := strings.Cut(parts[0], "=")
	if name = strings.TrimSpace(name); !ok || name == "" || isOwnCookie(name) {
		return "", false // without a name its value could be read as one
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

// stripPort returns a Host without its port.
func stripPort(host string) string {
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isSameProject reports whether a request that is not read-only, or that opens a
// WebSocket, comes from a page of the same project, or from no page. Pages of other
// sandboxes and of the web may only link to it.
func (p *Proxy) isSameProject(r *http.Request, tr *routedRequest) bool {
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
