package dialect

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Target is the URL of an API and its headers, including the one with the key.
type Target struct {
	URL    string
	Header http.Header
}

// NewTarget returns the target for answers of the API at base.
func NewTarget(n Name, base, key, model string, stream bool) (Target, error) {
	t := Target{Header: http.Header{}}
	var err error
	name, value := "Authorization", "Bearer "+key
	switch n {
	case Anthropic:
		t.URL, err = joinAddress(base, "v1", "messages")
		t.Header.Set("Anthropic-Version", "2023-06-01")
		name, value = "X-Api-Key", key
	case OpenAI:
		t.URL, err = joinAddress(base, "v1", "chat/completions")
	case Responses:
		t.URL, err = joinAddress(base, "v1", "responses")
	case Gemini:
		name, value = "X-Goog-Api-Key", key
		if t.URL, err = joinAddress(base, "v1beta", "models"); err == nil {
			t.URL += "/" + url.PathEscape(strings.TrimPrefix(model, "models/")) + ":generateContent"
			if stream {
				t.URL = strings.TrimSuffix(t.URL, ":generateContent") + ":streamGenerateContent?alt=sse"
			}
		}
	default:
		_, err = Of(n)
	}
	if key != "" {
		t.Header.Set(name, value)
	}
	return t, err
}

// joinAddress joins an API's base with a path below its version. The base may already
// have the version or the whole path.
func joinAddress(base, version, path string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%w: base %q: it must be a URL of http or https", atoll.ErrInvalid, base)
	}
	p := strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(p, "/"+path) {
		if !versioned.MatchString(p) {
			p += "/" + version
		}
		p += "/" + path
	}
	u.Path, u.RawPath = p, ""
	return u.String(), nil
}

// versioned matches a path that ends with a version.
var versioned = regexp.MustCompile(`/v[0-9]+([a-z]+[0-9]*)?$`)

// newPost returns a request to the API. The caller sets its context.
func (t Target) newPost(body any) (*http.Request, error) {
	b, err := encode(body)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, t.URL, bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	q.Header = t.Header
	q.Header.Set("Content-Type", "application/json")
	return q, nil
}
