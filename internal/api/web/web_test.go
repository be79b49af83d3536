package web_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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

// TestPolicy: the page and each of its files forbid scripts and styles of others, and to be framed.
func TestPolicy(t *testing.T) {
	for _, name := range []string{"", "app.js", "app.css", "icon.svg", "missing"} {
		head := get(name, "").Header()
		policy := head.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self';", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%q: the policy %q has no %s", name, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%q: the policy %q is too wide", name, policy)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" || head.Get("Cross-Origin-Opener-Policy") != "same-origin" {
			t.Errorf("%q: headers %v", name, head)
		}
	}
	if one, two := get("", "").Header().Get("Content-Security-Policy"), get("", "").Header().Get("Content-Security-Policy"); one == two {
		t.Errorf("the nonce is the same twice: %s", one)
	}
}

// TestFirstViewIsSmall: the first view loads little, and all parts together are under 1 MB compressed.
func TestFirstViewIsSmall(t *testing.T) {
	parts, err := filepath.Glob("static/part-*.js")
	if err != nil || len(parts) == 0 {
		t.Fatalf("parts that load later: %q, %v", parts, err)
	}
	first := compressedSize(t, "", "app.js", "app.css", "icon.svg")
	if first < 20_000 || first > 150_000 {
		t.Errorf("the first view has %d bytes compressed", first)
	}
	later := 0
	for _, p := range parts {
		later += compressedSize(t, filepath.Base(p))
	}
	if later < 100_000 || first+later > 1_000_000 {
		t.Errorf("%d bytes compressed at first, and %d later", first, later)
	}
}

// compressedSize returns the size of files of the page, compressed together.
func compressedSize(t *testing.T, names ...string) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, name := range names {
		if _, err := z.Write(get(name, "").Body.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}
