// Package forge opens pull requests (GitHub) and merge requests (GitLab) for a
// branch that was pushed: by the forge's own command where that is installed, else
// by its API with a token from the environment.
package forge

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Kind is the software of a forge.
type Kind string

// The forges that pull requests can be opened on.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
)

// Repository is a repository on a forge.
type Repository struct {
	Kind Kind
	Host string // with the port, if the URL has one: github.com
	Path string // owner/name; on GitLab with all groups
}

// Request describes a pull request.
type Request struct {
	Head  string // the pushed branch
	Base  string // the branch into which it shall be merged
	Title string
	Body  string
	Draft bool
}

// ParseRemote returns the repository that a git remote's URL names: https, ssh, git,
// or HOST:PATH. kind is the forge where its name does not tell; empty: found by the
// host's name. ErrInvalid: the URL has no host, or the forge can't be told.
func ParseRemote(remote string, kind Kind) (Repository, error) {
	host, path := splitRemote(remote)
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if host == "" || !strings.Contains(path, "/") {
		return Repository{}, fmt.Errorf("%w: the remote %s is no repository of a forge; its URL must name a host, an owner and a repository", atoll.ErrInvalid, hidePassword(remote))
	}
	name, _, _ := strings.Cut(host, ":")
	switch {
	case kind == GitHub || kind == GitLab:
	case kind != "":
		return Repository{}, fmt.Errorf("%w: forge %q: it is github or gitlab", atoll.ErrInvalid, kind)
	case strings.Contains(name, "github"):
		kind = GitHub
	case strings.Contains(name, "gitlab"):
		kind = GitLab
	default:
		return Repository{}, fmt.Errorf("%w: is %s GitHub or GitLab? --forge github or --forge gitlab tells", atoll.ErrInvalid, host)
	}
	return Repository{Kind: kind, Host: host, Path: path}, nil
}

// splitRemote returns the host and the path of a git URL; empty: it has no host.
func splitRemote(remote string) (host, path string) {
	if strings.Contains(remote, "://") {
		u, err := url.Parse(remote)
		if err != nil {
			return "", ""
		}
		switch u.Scheme {
		case "http", "https":
			return u.Host, u.Path
		case "ssh", "git", "git+ssh":
			return u.Hostname(), u.Path // the port is that of ssh, not of the API
		}
		return "", ""
	}
	host, path, found := strings.Cut(remote, ":")
	if !found || strings.Contains(host, "/") {
		return "", "" // a directory
	}
	return host[strings.LastIndex(host, "@")+1:], path
}

// hidePassword returns a URL without its user and password.
func hidePassword(remote string) string {
	u, err := url.Parse(remote)
	if err != nil || u.User == nil {
		return remote
	}
	u.User = nil
	return u.String()
}

// CompareURL returns the page on which a person can open the pull request by hand.
func (r Repository) CompareURL(q Request) string {
	u := url.URL{Scheme: "https", Host: r.Host, Path: "/" + r.Path}
	if r.Kind == GitLab {
		v := url.Values{"merge_request[source_branch]": {q.Head}, "merge_request[target_branch]": {q.Base}, "merge_request[title]": {q.Title}}
		u.Path += "/-/merge_requests/new"
		u.RawQuery = v.Encode()
		return u.String()
	}
	u.Path += "/compare/" + q.Base + "..." + q.Head
	u.RawQuery = "expand=1"
	return u.String()
}
