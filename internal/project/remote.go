package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// remoteName is what git of the host calls a sandbox.
func remoteName(name string) string { return "sandbox-" + name }

// remoteURL leads git to git-remote-atoll, which is atoll itself.
func remoteURL(name string) string { return "atoll::" + name }

// AddRemote gives the repository the remote sandbox-NAME, by which 'git fetch'
// brings the sandbox's branches to refs/remotes/sandbox-NAME. One that is there
// stays as it is; if it leads to elsewhere, it is ErrExists.
func (r *Repo) AddRemote(ctx context.Context, name string) error {
	url, err := r.remote(ctx, name)
	switch {
	case err != nil:
		return err
	case url == remoteURL(name):
		return nil
	case url != "":
		return fmt.Errorf("remote %s of %s: %w, and leads to %s", remoteName(name), r.Dir, atoll.ErrExists, shown(url))
	}
	section := "remote." + remoteName(name)
	return r.writing(ctx, nil, func(r *Repo) error {
		for _, s := range [][2]string{
			{"tagOpt", "--no-tags"},
			{"fetch", "+refs/heads/*:refs/remotes/" + remoteName(name) + "/*"},
			{"url", remoteURL(name)}, // last: with it, it is one
		} {
			if err := r.host.run(ctx, nil, nil, "config", "--local", "--replace-all", section+"."+s[0], s[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveRemote removes what AddRemote has made, and nothing else of that name.
// What was fetched below refs/sandbox stays.
func (r *Repo) RemoveRemote(ctx context.Context, name string) error {
	url, err := r.remote(ctx, name)
	if err != nil || url != remoteURL(name) {
		return err
	}
	return r.writing(ctx, nil, func(r *Repo) error {
		return r.host.run(ctx, nil, nil, "remote", "remove", remoteName(name))
	})
}

// remote returns where the remote of a sandbox leads; empty: there is none.
func (r *Repo) remote(ctx context.Context, name string) (string, error) {
	if err := checkSandboxName(name); err != nil {
		return "", err
	}
	url, code, err := r.host.status(ctx, "config", "--local", "--get", "remote."+remoteName(name)+".url")
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 2 {
		return "", fmt.Errorf("remote %s of %s: %w, and leads to several places", remoteName(name), r.Dir, atoll.ErrExists)
	}
	if err != nil || code != 0 {
		return "", err
	}
	return url[:max(0, len(url)-1)], nil
}
