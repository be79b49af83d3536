package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// remoteName returns the name of a sandbox's remote in the host's repository.
func remoteName(name string) string { return "sandbox-" + name }

// remoteURL returns a URL for which git uses git-remote-atoll, which is atoll itself.
func remoteURL(name string) string { return "atoll::" + name }

// AddRemote adds the remote sandbox-NAME, with which 'git fetch' fetches the sandbox's branches to
// refs/remotes/sandbox-NAME. 'git fetch --all' leaves it out: it would fail where git does not find git-remote-atoll, or the
// sandbox does not run. An equal remote stays as it is; one with another URL is ErrExists.
func (r *Repo) AddRemote(ctx context.Context, name string) error {
	url, err := r.readRemote(ctx, name)
	switch {
	case err != nil:
		return err
	case url == remoteURL(name):
		return r.skipFetchAll(ctx, name)
	case url != "":
		return fmt.Errorf("remote %s of %s: %w with the URL %s", remoteName(name), r.Dir, atoll.ErrExists, printable(url))
	}
	section := "remote." + remoteName(name)
	return r.withLock(ctx, nil, func(r *Repo) error {
		for _, s := range [][2]string{
			{"tagOpt", "--no-tags"},
			{"skipFetchAll", "true"},
			{"fetch", "+refs/heads/*:refs/remotes/" + remoteName(name) + "/*"},
			{"url", remoteURL(name)}, // last: it makes the remote complete
		} {
			if err := r.host.run(ctx, nil, nil, "config", "--local", "--replace-all", section+"."+s[0], s[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// skipFetchAll makes 'git fetch --all' leave out a remote of an earlier version, unless the user has decided on it.
func (r *Repo) skipFetchAll(ctx context.Context, name string) error {
	key := "remote." + remoteName(name) + ".skipFetchAll"
	_, code, err := r.host.runStatus(ctx, "config", "--local", "--get", key)
	if err != nil || code == 0 {
		return err
	}
	return r.withLock(ctx, nil, func(r *Repo) error { return r.host.run(ctx, nil, nil, "config", "--local", key, "true") })
}

// HasRemotes reports whether the repository has remotes besides those of sandboxes.
func (r *Repo) HasRemotes(ctx context.Context) (bool, error) {
	names, err := r.host.runLines(ctx, "remote")
	return slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, remoteName("")) }), err
}

// RemoveRemote removes a remote of AddRemote, and no other of that name. Refs below refs/sandbox stay.
func (r *Repo) RemoveRemote(ctx context.Context, name string) error {
	url, err := r.readRemote(ctx, name)
	if err != nil || url != remoteURL(name) {
		return err
	}
	return r.withLock(ctx, nil, func(r *Repo) error {
		return r.host.run(ctx, nil, nil, "remote", "remove", remoteName(name))
	})
}

// readRemote returns the URL of a sandbox's remote, or "" if there is none.
func (r *Repo) readRemote(ctx context.Context, name string) (string, error) {
	if err := checkSandboxName(name); err != nil {
		return "", err
	}
	url, code, err := r.host.runStatus(ctx, "config", "--local", "--get", "remote."+remoteName(name)+".url")
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 2 {
		return "", fmt.Errorf("remote %s of %s: %w with several URLs", remoteName(name), r.Dir, atoll.ErrExists)
	}
	if err != nil || code != 0 {
		return "", err
	}
	return url[:max(0, len(url)-1)], nil
}
