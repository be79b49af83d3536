package atoll

import (
	"context"
	"io"
	"time"
)

// ImageStore is a Driver that keeps images.
type ImageStore interface {
	// Images returns what is there, by name.
	Images(ctx context.Context) ([]Image, error)
	// PullImage gets an image from its registry; what is there already is
	// not fetched again. progress may be nil.
	PullImage(ctx context.Context, ref string, progress func(Progress)) (Image, error)
	// RemoveImage forgets an image. One that is in use is ErrState.
	RemoveImage(ctx context.Context, ref string) error
}

// ImageImporter is an ImageStore that takes archives: of `docker save`, an OCI
// layout as tar, or the files of a root directory.
type ImageImporter interface {
	ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(Progress)) (Image, error)
}

// ImageBuilder is an ImageStore that builds from a Dockerfile.
type ImageBuilder interface {
	// BuildImage builds from a context, a tar stream that holds the
	// Dockerfile at its root. Output goes to progress as messages.
	BuildImage(ctx context.Context, b ImageBuild, context io.Reader, progress func(Progress)) (Image, error)
}

// ImageBuild says what to build.
type ImageBuild struct {
	Ref        string            `json:"ref"`                  // its name
	Dockerfile string            `json:"dockerfile,omitempty"` // path in the context; empty: "Dockerfile"
	Args       map[string]string `json:"args,omitempty"`
	Network    string            `json:"network,omitempty"` // of the builder; empty: its default
}

// Image is a root file system to make sandboxes of.
type Image struct {
	Ref      string    `json:"ref"`    // "registry/name:tag", as it is asked for
	Digest   string    `json:"digest"` // of its manifest or configuration
	Size     int64     `json:"size"`   // bytes on disk
	Layers   int       `json:"layers"`
	Platform string    `json:"platform,omitempty"` // "linux/amd64"
	Created  time.Time `json:"created,omitzero"`
}

// DriverImage is an image and the driver that keeps it.
type DriverImage struct {
	Driver string `json:"driver"`
	Image
}

// Progress is how far something long has come.
type Progress struct {
	ID      string `json:"id,omitempty"` // of the part, such as a layer's short digest
	Message string `json:"message,omitempty"`
	Done    int64  `json:"done,omitempty"`  // bytes
	Total   int64  `json:"total,omitempty"` // bytes; 0: unknown
}
