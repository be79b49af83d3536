package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
)

// ExportArchive returns an archive of the sandbox, as it is now or was at a snapshot, given by id or
// name. The caller closes it; an archive that is incomplete ends with an error.
func (s *Sandbox) ExportArchive(ctx context.Context, snapshot string) (io.ReadCloser, error) {
	q := make(url.Values)
	setText(q, "snapshot", snapshot)
	return s.c.startDownload(ctx, call{op: "export sandbox", id: s.id, path: s.path + "/export", query: q})
}

// ImportOptions change what an archive is imported as.
type ImportOptions struct {
	Name   string // empty: the name in the archive
	Driver string // empty: the driver in the archive; another one gets only the files of the working directory
}

// ImportArchive creates a sandbox from an archive that ExportArchive returned, here or elsewhere.
func (c *Client) ImportArchive(ctx context.Context, archive io.Reader, o ImportOptions) (*Sandbox, atoll.ImportedSandbox, error) {
	k := call{op: "import sandbox", id: o.Name, method: http.MethodPost, path: "/v1/sandboxes/import", query: make(url.Values)}
	setText(k.query, "name", o.Name)
	setText(k.query, "driver", o.Driver)
	k.header = http.Header{"Content-Type": {"application/zstd"}}
	src := newSource(ctx, archive)
	k.body = src
	var made atoll.ImportedSandbox
	err := c.getJSON(ctx, k, &made)
	if own := src.stopReading(); own != nil && err != nil && ctx.Err() == nil {
		err = k.wrapError(own)
	}
	if err != nil {
		return nil, made, err
	}
	return c.newSandbox(made.Info), made, nil
}

// ArchiveOrphans returns the objects in the server's archive storage that its registry does not know; with remove it
// deletes them. It needs the scope operate.
func (c *Client) ArchiveOrphans(ctx context.Context, remove bool) ([]atoll.ArchiveOrphan, error) {
	k := call{op: "archive orphans", path: "/v1/archive/orphans"}
	if remove {
		k.method = http.MethodDelete
	}
	return getList[atoll.ArchiveOrphan](ctx, c, k)
}
