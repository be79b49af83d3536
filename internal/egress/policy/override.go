package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The headers by which servers and frameworks replace the method and the path of a request.
var (
	methodOverrides = []string{"x-http-method-override", "x-http-method", "x-method-override"}
	pathOverrides   = []string{"x-original-url", "x-rewrite-url", "x-original-uri", "x-rewrite-uri", "x-forwarded-uri", "x-envoy-original-path", "x-waws-unencoded-url"}
)

// maxOverrides is the largest number of such headers in a request, of each kind.
const maxOverrides = 4

// CheckOverrides returns the verdict of check on a request, and on all requests as which a server may
// read it because of headers that replace its method or its path.
func CheckOverrides(method, path string, fields http.Header, check func(method, path string) Verdict) Verdict {
	v := check(method, path)
	if !v.Allowed {
		return v
	}
	methods, paths := []string{method}, []string{path}
	for name, values := range fields {
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		for _, value := range values {
			switch {
			case slices.Contains(methodOverrides, name):
				methods = append(methods, strings.ToUpper(strings.TrimSpace(value)))
			case slices.Contains(pathOverrides, name):
				paths = append(paths, overridePath(value))
			}
		}
	}
	if len(methods) > 1+maxOverrides || len(paths) > 1+maxOverrides {
		return Verdict{Reason: "too many headers that replace the method or the path of a request"}
	}
	for _, m := range methods {
		if m == http.MethodTrace || m == "TRACK" {
			return Verdict{Reason: m + " in a header makes a server return the request with the headers that the proxy sets"}
		}
		for _, p := range paths {
			if other := check(m, p); !other.Allowed {
				other.Reason = fmt.Sprintf("a header replaces the request by another: %s", other.Reason)
				return other
			}
		}
	}
	return v
}

// overridePath returns the path in a header, which may be a URL.
func overridePath(value string) string {
	value = strings.TrimSpace(value)
	if u, err := url.Parse(value); err == nil && u.Host != "" && u.Scheme != "" {
		value = u.EscapedPath()
	}
	value, _, _ = strings.Cut(value, "?")
	value, _, _ = strings.Cut(value, "#")
	if !strings.HasPrefix(value, "/") {
		value = "/" + value
	}
	return value
}
