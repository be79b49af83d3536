package forge

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestParseRemote(t *testing.T) {
	for remote, want := range map[string]Repository{
		"https://github.com/o/r.git":             {GitHub, "github.com", "o/r"},
		"https://me:secret@github.com/o/r":       {GitHub, "github.com", "o/r"},
		"git@github.com:o/r.git":                 {GitHub, "github.com", "o/r"},
		"ssh://git@github.example.com:2222/o/r/": {GitHub, "github.example.com", "o/r"},
		"https://gitlab.com/g/sub/r.git":         {GitLab, "gitlab.com", "g/sub/r"},
		"http://gitlab.example.com:8080/g/r":     {GitLab, "gitlab.example.com:8080", "g/r"},
	} {
		if got, err := ParseRemote(remote, ""); got != want || err != nil {
			t.Errorf("%s: %+v, %v", remote, got, err)
		}
	}
	if got, err := ParseRemote("https://code.example.com/o/r", GitLab); got.Kind != GitLab || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for remote, text := range map[string]string{
		"/srv/r.git": "no repository", "file:///srv/github/r.git": "no repository", "https://github.com/r": "no repository",
		"https://code.example.com/o/r": "--forge", "https://me:secret@[github/o/r": "no repository",
	} {
		_, err := ParseRemote(remote, "")
		if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", remote, err)
		}
	}
	_, err := ParseRemote("https://me:secret@github.com/r", "")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// newClient returns a client of an API, without a forge's command and with a token.
func newClient(t *testing.T, answer http.HandlerFunc) Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return Client{
		API: s.URL, LookPath: func(string) (string, error) { return "", errors.New("none") },
		Getenv: func(name string) string { return map[string]string{"GITHUB_TOKEN": "t", "GITLAB_TOKEN": "t"}[name] },
	}
}

func TestOpenByAPI(t *testing.T) {
	var got string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.EscapedPath() + " " + r.Header.Get("Authorization") + " " + string(body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"html_url":"https://github.com/o/r/pull/1"}`)
	})
	q := Request{Head: "fix", Base: "main", Title: "T", Body: "B", Draft: true}
	url, err := c.Open(t.Context(), Repository{GitHub, "github.com", "o/r"}, q)
	if url != "https://github.com/o/r/pull/1" || err != nil {
		t.Errorf("%q, %v", url, err)
	}
	if want := `POST /repos/o/r/pulls Bearer t {"base":"main","body":"B","draft":true,"head":"fix","title":"T"}`; got != want {
		t.Errorf("sent %s", got)
	}
	if _, err := c.Open(t.Context(), Repository{GitLab, "gitlab.com", "g/sub/r"}, q); err != nil {
		t.Error(err)
	}
	if want := `POST /projects/g%2Fsub%2Fr/merge_requests Bearer t {"description":"B","source_branch":"fix","target_branch":"main","title":"Draft: T"}`; got != want {
		t.Errorf("sent %s", got)
	}
}

func TestOpenIsRefused(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{401, "Bad credentials", atoll.ErrDenied},
		{404, "Not Found", atoll.ErrNotFound},
		{409, "Another open merge request already exists", atoll.ErrExists},
		{422, "A pull request already exists for o:fix", atoll.ErrExists},
		{422, "No commits between main and fix", atoll.ErrInvalid},
		{502, strings.Repeat("x", 5000), atoll.ErrUnavailable},
		{302, "", atoll.ErrInvalid},
	} {
		client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the token was carried to a redirect's target")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := client.Open(t.Context(), Repository{GitHub, "github.com", "o/r"}, Request{Head: "fix"})
		if !errors.Is(err, c.want) || len(err.Error()) > 500 || strings.Contains(err.Error(), "Bearer") {
			t.Errorf("%d: %v", c.status, err)
		}
	}
	_, err := Client{Getenv: func(string) string { return "" }, LookPath: func(string) (string, error) { return "", errors.New("none") }}.FindAccess(Repository{Kind: GitLab})
	if !errors.Is(err, ErrNoAccess) {
		t.Error(err)
	}
}

func TestOpenByCommand(t *testing.T) {
	dir := t.TempDir()
	log, program := filepath.Join(dir, "log"), filepath.Join(dir, "glab")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+log+"\necho made\necho https://gitlab.com/g/r/-/merge_requests/3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Client{LookPath: func(string) (string, error) { return program, nil }}
	url, err := c.Open(t.Context(), Repository{GitLab, "gitlab.com", "g/r"}, Request{Head: "fix", Base: "main", Title: "--web", Body: "B"})
	if url != "https://gitlab.com/g/r/-/merge_requests/3" || err != nil {
		t.Errorf("%q, %v", url, err)
	}
	args, err := os.ReadFile(log)
	if want := "mr\ncreate\n--repo\nhttps://gitlab.com/g/r\n--source-branch\nfix\n--target-branch\nmain\n--title\n--web\n--description\nB\n--yes\n"; string(args) != want || err != nil {
		t.Errorf("%q, %v", args, err)
	}
	c.LookPath = func(string) (string, error) { return "/bin/false", nil }
	if _, err := c.Open(t.Context(), Repository{GitHub, "github.com", "o/r"}, Request{}); err == nil {
		t.Error("a command that fails opens a pull request")
	}
}
