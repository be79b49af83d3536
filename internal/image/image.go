// Package image keeps root file systems: pulled from registries or imported
// from archives, unpacked layer by layer into directories that images share.
package image

import "github.com/atoll-sandbox/atoll"

// Config is what an image says about the programs that run in it.
type Config struct {
	Env        []string `json:"env,omitempty"`
	User       string   `json:"user,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
}

// Root is an image as a file system: what overlayfs puts together.
type Root struct {
	Image  atoll.Image `json:"image"`
	Config Config      `json:"config"`
	// Layers are directories, the upper ones first. Whiteouts and opaque
	// directories in them are those of overlayfs, in the attributes that
	// mounts with userxattr read and, made by root, in those of others too.
	Layers []string `json:"layers"`
}

// Limits bound what an image may unpack to; 0 is the default.
type Limits struct {
	Bytes int64 // of all files of a layer
	Files int   // of a layer, directories and links too
}

// The defaults of Limits.
const (
	DefaultBytes = 64 << 30
	DefaultFiles = 4 << 20
)
