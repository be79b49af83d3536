package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
)

// Disks returns the caller's persistent disks in the order of names.
func (c *Client) Disks(ctx context.Context) ([]atoll.Disk, error) {
	return getList[atoll.Disk](ctx, c, call{op: "disks", path: "/v1/disks"})
}

// RemoveDisk removes a persistent disk and its data. A disk that a sandbox uses is
// ErrState.
func (c *Client) RemoveDisk(ctx context.Context, name string) error {
	return c.getJSON(ctx, call{op: "disk remove", id: name, method: http.MethodDelete, path: "/v1/disks/" + escapeSegment(name)}, nil)
}

// StartFresh starts the stopped sandbox with the disks it was created with: everything
// written to them since is lost.
func (s *Sandbox) StartFresh(ctx context.Context) error {
	k := s.newCall("fresh start", http.MethodPost, "/start")
	k.query = url.Values{"fresh": {"true"}}
	return s.c.getJSON(ctx, k, nil)
}

// DestroyKeepDisk removes the sandbox except the disk of its working directory,
// which is kept under the given name. A missing sandbox is ErrNotFound,
// unless one of its disks is already kept under that name.
func (s *Sandbox) DestroyKeepDisk(ctx context.Context, name string) error {
	k := s.newCall("destroy", http.MethodDelete, "")
	k.query = url.Values{"keep_disk": {name}}
	err := s.c.getJSON(ctx, k, nil)
	if !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	disks, lerr := s.c.Disks(ctx)
	for _, d := range disks {
		if d.Name == name && d.CreatedFor == s.id {
			return nil
		}
	}
	return errors.Join(err, lerr)
}
