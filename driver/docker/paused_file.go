package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

// readPaused reads a file through the engine, which reads the container's root itself.
func (s *Sandbox) readPaused(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.e.api.CopyFromContainer(ctx, s.mainContainer(), client.CopyFromContainerOptions{SourcePath: name})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, s.e.contextError(ctx, err))
	}
	tr := tar.NewReader(r.Content)
	h, err := tr.Next()
	if err == nil && h.Typeflag != tar.TypeReg {
		err = fmt.Errorf("%w: %s is not a file", atoll.ErrInvalid, name)
	}
	if err != nil {
		return nil, errors.Join(err, r.Content.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{tr, r.Content}, nil
}
