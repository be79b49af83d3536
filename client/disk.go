package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
)

// Disks returns the caller's kept disks, by name.
func (c *Client) Disks(ctx context.Context) ([]atoll.Disk, error) {
	return list[atoll.Disk](ctx, c, call{op: "disks", path: "/v1/disks"})
}

// RemoveDisk forgets a kept disk and all on it. One that a sandbox uses is
// ErrState.
func (c *Client) RemoveDisk(ctx context.Context, name string) error {
	return c.get(ctx, call{op: "disk remove", id: name, method: http.MethodDelete, path: "/v1/disks/" + seg(name)}, nil)
}

// Fresh starts the sandbox, which is stopped, as it was when it was made: what
// has been written to its disks since is gone.
func (s *Sandbox) Fresh(ctx context.Context) error {
	k := s.call("fresh start", http.MethodPost, "/start")
	k.query = url.Values{"fresh": {"true"}}
	return s.c.get(ctx, k, nil)
}

// DestroyKeeping removes the sandbox, but for the disk of its working directory,
// which is kept under a name. A sandbox that is not there any more is ErrNotFound,
// unless a disk of it is kept under that name.
func (s *Sandbox) DestroyKeeping(ctx context.Context, name string) error {
	k := s.call("destroy", http.MethodDelete, "")
	k.query = url.Values{"keep_disk": {name}}
	err := s.c.get(ctx, k, nil)
	if !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	disks, lerr := s.c.Disks(ctx)
	for _, d := range disks {
		if d.Name == name && d.From == s.id {
			return nil
		}
	}
	return errors.Join(err, lerr)
}
