package api

import (
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/api/web"
	"github.com/atoll-sandbox/atoll/internal/preview"
)

// consolePath is the path of the web console.
const consolePath = "/ui/"

// isConsole reports whether a request is for the web console. The console is public: it gets its
// data with the user's token.
func isConsole(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return strings.HasPrefix(r.URL.Path, consolePath) || r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// newConsole returns the handler of requests for which isConsole is true. The console may frame the ports of
// sandboxes of routes, if it is not nil.
func newConsole(routes *preview.Registry) http.Handler {
	var frames []string
	if routes != nil {
		frames = routes.Address.Origins()
	}
	page := http.StripPrefix(consolePath, web.Handler(frames...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, consolePath, http.StatusFound)
			return
		}
		page.ServeHTTP(w, r)
	})
}
