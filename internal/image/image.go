// Package image stores root file systems. They are pulled from registries or imported from
// archives, and unpacked into directories, one for each layer, which images share.
package image

import "github.com/atoll-sandbox/atoll"

// Config is the part of an image's configuration that concerns its programs.
type Config struct {
	Env        []string `json:"env,omitempty"`
	User       string   `json:"user,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
}

// Root is an image as a file system for overlayfs.
type Root struct {
	Image  atoll.Image `json:"image"`
	Config Config      `json:"config"`
	// Layers are directories, topmost first. Whiteouts and opaque directories have the form of
	// overlayfs, in the attributes for mounts with userxattr; if root made them, also in those for
	// other mounts.
	Layers []string `json:"layers"`
}

// Limits are the limits of unpacked layers; 0 is the default.
type Limits struct {
	Bytes int64 // of all files of a layer
	Files int   // of a layer, with directories and links
}

// Default values of Limits.
const (
	DefaultBytes = 64 << 30
	DefaultFiles = 4 << 20
)
