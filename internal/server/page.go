package server

import (
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/web"
)

// pagePath is where the page of terminals is.
const pagePath = "/ui/"

// isPage reports whether a request is for the page, which holds nothing of
// anybody's: what it shows it asks for with the token of who looks at it.
func isPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return strings.HasPrefix(r.URL.Path, pagePath) || r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// newPage returns what answers when isPage.
func newPage() http.Handler {
	page := http.StripPrefix(pagePath, web.Handler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, pagePath, http.StatusFound)
			return
		}
		page.ServeHTTP(w, r)
	})
}
