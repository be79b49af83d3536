package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/api/web"
)

// get asks the page's handler for a path below where it is mounted.
func get(path, known string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/"+path, nil)
	if known != "" {
		r.Header.Set("If-None-Match", known)
	}
	w := httptest.NewRecorder()
	http.StripPrefix("/", web.Handler()).ServeHTTP(w, r)
	return w
}

// TestWhatIsKnownIsNotSentAgain: on a slow network the program comes once, and
// the page says something before it is there.
func TestWhatIsKnownIsNotSentAgain(t *testing.T) {
	for _, name := range []string{"app.js", "app.css", "icon.svg", "LICENSES.txt"} {
		first := get(name, "")
		tag := first.Header().Get("ETag")
		if first.Code != http.StatusOK || first.Body.Len() == 0 || tag == "" {
			t.Fatalf("%s: %d, %d bytes, ETag %q", name, first.Code, first.Body.Len(), tag)
		}
		if again := get(name, tag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d, %d bytes, want 304 and none", name, again.Code, again.Body.Len())
		}
		if other := get(name, `"other"`); other.Code != http.StatusOK || other.Body.Len() != first.Body.Len() {
			t.Errorf("%s with another tag: %d, %d bytes", name, other.Code, other.Body.Len())
		}
	}
	page := get("", "")
	if page.Header().Get("ETag") != "" {
		t.Error("the page has a nonce of one answer, and must come anew")
	}
	if !strings.Contains(page.Body.String(), "Loading…") {
		t.Error("the page is empty until its program is there")
	}
	if missing := get("index.html", ""); missing.Code != http.StatusNotFound {
		t.Errorf("index.html: %d", missing.Code)
	}
}
