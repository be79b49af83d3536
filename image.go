package atoll

import (
	"context"
	"io"
	"time"
)

// ImageStore is a Driver that stores images.
type ImageStore interface {
	// Images returns the stored images, ordered by name.
	Images(ctx context.Context) ([]Image, error)
	// PullImage downloads an image from its registry. Layers that are stored already are not
	// downloaded again. progress may be nil.
	PullImage(ctx context.Context, ref string, progress func(Progress)) (Image, error)
	// RemoveImage removes an image. An image that is in use is ErrState.
	RemoveImage(ctx context.Context, ref string) error
}

// ImageImporter is an ImageStore that imports archives: the output of `docker save`, an OCI
// layout as tar, or the files of a root directory.
type ImageImporter interface {
	ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(Progress)) (Image, error)
}

// ImageBuilder is an ImageStore that builds images from a Dockerfile.
type ImageBuilder interface {
	// BuildImage builds an image from a context: a tar stream with the Dockerfile at its
	// root. The builder's output goes to progress as messages.
	BuildImage(ctx context.Context, b ImageBuild, context io.Reader, progress func(Progress)) (Image, error)
}

// ImageBuild describes an image to build.
type ImageBuild struct {
	Ref        string            `json:"ref"`                  // name of the image
	Dockerfile string            `json:"dockerfile,omitempty"` // path in the context; empty: "Dockerfile"
	Args       map[string]string `json:"args,omitempty"`
	Network    string            `json:"network,omitempty"` // network of the builder; empty: its default
}

// Image is a root file system from which sandboxes are created.
type Image struct {
	Ref      string    `json:"ref"`    // "registry/name:tag", as requested
	Digest   string    `json:"digest"` // digest of its manifest or configuration
	Size     int64     `json:"size"`   // bytes on disk
	Layers   int       `json:"layers"`
	Platform string    `json:"platform,omitempty"` // "linux/amd64"
	Created  time.Time `json:"created,omitzero"`
}

// DriverImage is an image and the name of the driver that stores it.
type DriverImage struct {
	Driver string `json:"driver"`
	Image
}

// Progress is the progress of a long operation.
type Progress struct {
	ID      string `json:"id,omitempty"` // one part of the operation, such as a layer's short digest
	Message string `json:"message,omitempty"`
	Done    int64  `json:"done,omitempty"`  // bytes
	Total   int64  `json:"total,omitempty"` // bytes; 0: unknown
}
