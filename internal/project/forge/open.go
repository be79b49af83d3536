package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// ErrNoAccess is returned where neither the forge's command is installed nor a token
// is set.
var ErrNoAccess = errors.New("no access to the forge")

// callTimeout limits one request to a forge's API, and one run of its command.
const callTimeout = time.Minute

// maxAnswer limits how much of an API's answer is read.
const maxAnswer = 1 << 20

// Client opens pull requests. The zero value uses the environment of this process.
type Client struct {
	API      string                                      // base URL of the API; empty: that of the host
	Getenv   func(string) string                         // nil: os.Getenv
	LookPath func(string) (string, error)                // nil: exec.LookPath
	Log      io.Writer                                   // messages of the forge's command; nil: discarded
	Do       func(*http.Request) (*http.Response, error) // nil: a client that follows no redirect
}

// Access describes how a client reaches a forge.
type Access struct {
	Command string // gh or glab, if it is installed
	Token   string // a token of the environment, used if there is no command
	Source  string // the variable that has the token
}

func (a Access) String() string {
	switch {
	case a.Command != "":
		return "by " + a.Command
	case a.Token != "":
		return "by the API, with the token of " + a.Source
	}
	return "by hand"
}

// FindAccess returns how a repository's forge is reached. A token is preferred where
// API is set, since the forge's command goes to its own host. ErrNoAccess: in no way.
func (c Client) FindAccess(r Repository) (Access, error) {
	getenv, look := c.Getenv, c.LookPath
	if getenv == nil {
		getenv = os.Getenv
	}
	if look == nil {
		look = exec.LookPath
	}
	command, names := "gh", []string{"GH_TOKEN", "GITHUB_TOKEN"}
	if r.Kind == GitLab {
		command, names = "glab", []string{"GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN"}
	}
	if c.API == "" {
		if path, err := look(command); err == nil {
			return Access{Command: path}, nil
		}
	}
	for _, name := range names {
		if token := getenv(name); token != "" {
			return Access{Token: token, Source: name}, nil
		}
	}
	return Access{}, fmt.Errorf("%w: %s is not installed and %s is not set", ErrNoAccess, command, strings.Join(names, " or "))
}

// Open opens a pull request and returns its address. ErrExists: the forge has one for
// this branch already. ErrDenied: the forge refuses the credentials.
func (c Client) Open(ctx context.Context, r Repository, q Request) (string, error) {
	access, err := c.FindAccess(r)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("%w: %s did not answer within %v", atoll.ErrTimeout, r.Host, callTimeout))
	defer cancel()
	if access.Command != "" {
		return c.runCommand(ctx, access.Command, r, q)
	}
	return c.callAPI(ctx, access.Token, r, q)
}

// runCommand opens a pull request by gh or glab.
func (c Client) runCommand(ctx context.Context, path string, r Repository, q Request) (string, error) {
	args := []string{"pr", "create", "--repo", r.Host + "/" + r.Path, "--head", q.Head, "--base", q.Base, "--title", q.Title, "--body", q.Body}
	if r.Kind == GitLab {
		args = []string{
			"mr", "create", "--repo", "https://" + r.Host + "/" + r.Path, "--source-branch", q.Head, "--target-branch", q.Base,
			"--title", q.Title, "--description", q.Body, "--yes",
		}
	}
	if q.Draft {
		args = append(args, "--draft")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/" // no file of the repository, nor of a directory that other users write, configures it
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, c.Log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "https://") || strings.HasPrefix(line, "http://") {
			return line, nil
		}
	}
	return "", fmt.Errorf("%s printed no address: %.200q", path, out.String())
}

// callAPI opens a pull request by the forge's API.
func (c Client) callAPI(ctx context.Context, token string, r Repository, q Request) (string, error) {
	address, body := c.describeCall(r, q)
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	do := c.Do
	if do == nil {
		// A redirect could carry the token to another host.
		do = (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do
	}
	resp, err := do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Host, err)
	}
	if resp.StatusCode != http.StatusCreated {
		return "", explainAnswer(r, resp.StatusCode, answer)
	}
	var made struct {
		HTMLURL string `json:"html_url"` // GitHub
		WebURL  string `json:"web_url"`  // GitLab
	}
	if err := json.Unmarshal(answer, &made); err != nil || made.HTMLURL+made.WebURL == "" {
		return "", fmt.Errorf("%s opened the pull request, but its answer names no address: %.200q", r.Host, answer)
	}
	return made.HTMLURL + made.WebURL, nil
}

// describeCall returns the address and the body of the API's call:
// https://docs.github.com/rest/pulls/pulls and https://docs.gitlab.com/api/merge_requests.
func (c Client) describeCall(r Repository, q Request) (address string, body map[string]any) {
	base := strings.TrimSuffix(c.API, "/")
	if r.Kind == GitLab {
		if base == "" {
			base = "https://" + r.Host + "/api/v4"
		}
		title := q.Title
		if q.Draft {
			title = "Draft: " + title
		}
		return base + "/projects/" + url.PathEscape(r.Path) + "/merge_requests",
			map[string]any{"source_branch": q.Head, "target_branch": q.Base, "title": title, "description": q.Body}
	}
	if base == "" {
		base = "https://" + r.Host + "/api/v3"
		if r.Host == "github.com" {
			base = "https://api.github.com"
		}
	}
	return base + "/repos/" + r.Path + "/pulls", map[string]any{"head": q.Head, "base": q.Base, "title": q.Title, "body": q.Body, "draft": q.Draft}
}

// explainAnswer returns the error for an answer that is not 201.
func explainAnswer(r Repository, status int, answer []byte) error {
	text := strings.TrimSpace(string(answer))
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	kind := atoll.ErrUnavailable
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		kind = atoll.ErrDenied
	case status == http.StatusNotFound:
		kind = atoll.ErrNotFound // also where the token may not see the repository
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity && strings.Contains(text, "already exists"):
		kind = atoll.ErrExists
	case status < 500:
		kind = atoll.ErrInvalid
	}
	return fmt.Errorf("%w: %s answered %d: %q", kind, r.Host, status, text)
}
