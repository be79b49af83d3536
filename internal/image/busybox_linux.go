package image

import (
	"context"
	"errors"

	"github.com/atoll-sandbox/atoll"
)

// EnsureDefault returns the reference of the image for a sandbox that names none: [atoll.DefaultImage] if it is installed, else
// an image of the host's static busybox, for which no registry is needed. It imports that at its first use. Without such a
// busybox the default image is pulled.
func (s *Store) EnsureDefault(ctx context.Context, progress func(atoll.Progress)) (string, error) {
	for _, ref := range []string{atoll.DefaultImage, HostBusybox} {
		if _, err := s.findRecord(ref); err == nil || !errors.Is(err, atoll.ErrNotFound) {
			return ref, err
		}
	}
	path, missing := FindBusybox()
	if missing != nil {
		_, err := s.PullImage(ctx, atoll.DefaultImage, progress)
		if err != nil {
			err = errors.Join(err, missing)
		}
		return atoll.DefaultImage, err
	}
	files, err := BusyboxFiles(ctx, path)
	if err != nil {
		return "", err
	}
	archive, err := WriteArchive(files)
	if err != nil {
		return "", err
	}
	_, err = s.ImportImage(ctx, HostBusybox, archive, progress)
	return HostBusybox, err
}
