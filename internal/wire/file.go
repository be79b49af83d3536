package wire

import (
	"io/fs"
	"time"
)

// FileInfo is an fs.FileInfo as the wire carries it.
type FileInfo struct {
	Name     string      `json:"name"`
	Size     int64       `json:"size"`
	Mode     fs.FileMode `json:"mode"` // with the bits of the type
	Modified time.Time   `json:"modified"`
	Target   string      `json:"target,omitempty"` // of a symbolic link
}

// InfoOf writes an fs.FileInfo down; target is that of a symbolic link.
func InfoOf(i fs.FileInfo, target string) FileInfo {
	return FileInfo{Name: i.Name(), Size: i.Size(), Mode: i.Mode(), Modified: i.ModTime(), Target: target}
}

// Info returns it as an fs.FileInfo, whose Sys is the FileInfo and whose
// Linkname is the target.
func (f FileInfo) Info() fs.FileInfo { return fileInfo{f} }

type fileInfo struct{ f FileInfo }

func (i fileInfo) Name() string       { return i.f.Name }
func (i fileInfo) Size() int64        { return i.f.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.f.Mode }
func (i fileInfo) ModTime() time.Time { return i.f.Modified }
func (i fileInfo) IsDir() bool        { return i.f.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.f }
func (i fileInfo) Linkname() string   { return i.f.Target }

// FailureTrailer is the HTTP trailer that holds the Problem, as JSON, that cut
// a download short. Servers send it to those whose request has "TE: trailers";
// to others they break the connection, so that nobody takes a part for the
// whole.
const FailureTrailer = "Atoll-Problem"
