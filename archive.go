package atoll

import (
	"context"
	"io"
	"time"
)

// FilePacker is a sandbox whose files can be packed for a new sandbox, on this host or another.
type FilePacker interface {
	// PackFiles packs the files of the sandbox as they are now, or were at a snapshot, given by id
	// or name. Files of mounts are left out. The caller must close the stream; Close returns the
	// first error of the transfer.
	PackFiles(ctx context.Context, snapshot string) (*PackedFiles, error)
}

// FileUnpacker is a Driver that creates sandboxes with the files that a FilePacker has packed.
type FileUnpacker interface {
	// CreatePacked creates a sandbox as Create does, with files that a sandbox of the same driver
	// has packed. It reads files to their end and does not close them. When it fails, nothing is
	// left.
	CreatePacked(ctx context.Context, spec Spec, files *PackedFiles) (Sandbox, error)
}

// PackedKind is the part of a sandbox's files that was packed.
type PackedKind string

// The kinds of packed files. The names of the first two are relative to the root directory.
const (
	PackedRoot      PackedKind = "root"      // all files
	PackedLayer     PackedKind = "layer"     // what differs from the image, as in a layer of an OCI image
	PackedDirectory PackedKind = "directory" // the working directory; names begin with its base name
)

// PackedFiles are the files of a sandbox as a tar stream.
type PackedFiles struct {
	Kind  PackedKind `json:"kind"`
	Dir   string     `json:"dir"`             // the working directory; absolute
	Image string     `json:"image,omitempty"` // digest of the image that a layer belongs to; empty: none
	Env   []string   `json:"env,omitempty"`   // environment of the image of a root directory
	User  string     `json:"user,omitempty"`  // user of its commands, as in Spec.User; empty: unknown

	io.ReadCloser `json:"-"`
}

// SandboxArchive describes an archive of a sandbox: a file from which the sandbox can be created
// again, on this host or another.
type SandboxArchive struct {
	Version  int       `json:"version"` // of the format; SandboxArchiveVersion
	Created  time.Time `json:"created"`
	Program  string    `json:"program,omitempty"` // version of atoll that wrote it
	Sandbox  string    `json:"sandbox"`           // id of the sandbox
	Snapshot string    `json:"snapshot,omitempty"`

	// Config is the sandbox's configuration without what belongs to its host and owner.
	Config Config `json:"config"`

	// LeftOut names what the archive does not have, although the sandbox had it.
	LeftOut []string `json:"left_out,omitempty"`

	Files PackedFiles `json:"files"`
}

// SandboxArchiveVersion is the version of the archives that are written.
const SandboxArchiveVersion = 1

// ImportedSandbox is a sandbox that was created from an archive.
type ImportedSandbox struct {
	Info    Info           `json:"sandbox"`
	Archive SandboxArchive `json:"archive"`

	// Partial is true if only the files of the working directory were imported: the archive has no
	// others, or they are of use only to the driver that packed them.
	Partial bool `json:"partial,omitempty"`
}

// ArchiveOrphan is an object in the archive storage of a server that the registry does not know.
type ArchiveOrphan struct {
	Key      string    `json:"key"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}
