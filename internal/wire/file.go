package wire

import (
	"archive/tar"
	"io/fs"
	"time"
)

// FileInfo is an fs.FileInfo in JSON.
type FileInfo struct {
	Name     string      `json:"name"`
	Size     int64       `json:"size"`
	Mode     fs.FileMode `json:"mode"` // includes the type bits
	Modified time.Time   `json:"modified"`
	Target   string      `json:"target,omitempty"` // target of a symbolic link
}

// LinkTarget returns the target of a symbolic link as the sandbox's driver reports it; empty: info is
// no link, or the driver does not report it.
func LinkTarget(info fs.FileInfo) string {
	if info.Mode().Type() != fs.ModeSymlink {
		return ""
	}
	switch known := info.Sys().(type) {
	case *tar.Header:
		return known.Linkname
	case interface{ Linkname() string }:
		return known.Linkname()
	}
	if l, ok := info.(interface{ Linkname() string }); ok {
		return l.Linkname()
	}
	return ""
}

// InfoOf converts an fs.FileInfo. target is the target of a symbolic link.
func InfoOf(i fs.FileInfo, target string) FileInfo {
	return FileInfo{Name: i.Name(), Size: i.Size(), Mode: i.Mode(), Modified: i.ModTime(), Target: target}
}

// Info converts back to an fs.FileInfo. Its Sys method returns the FileInfo, its Linkname method the
// target.
func (f FileInfo) Info() fs.FileInfo { return fileInfo{f} }

type fileInfo struct{ f FileInfo }

func (i fileInfo) Name() string       { return i.f.Name }
func (i fileInfo) Size() int64        { return i.f.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.f.Mode }
func (i fileInfo) ModTime() time.Time { return i.f.Modified }
func (i fileInfo) IsDir() bool        { return i.f.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.f }
func (i fileInfo) Linkname() string   { return i.f.Target }

// FailureTrailer is the HTTP trailer with the Problem, as JSON, that ended a download early. Servers
// send it to clients whose request has "TE: trailers". For other clients they abort the connection, so
// that a part is not mistaken for the whole.
const FailureTrailer = "Atoll-Problem"
