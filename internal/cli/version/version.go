// Package version has the version of the running program.
package version

import (
	"runtime"
	"runtime/debug"
)

// These are the version of a release and its commit, which cmd/internal/release sets when it links a
// program: what Go finds out by itself depends on how the source was checked out.
var release, revision, date string

// Info describes a build of atoll.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Build returns the version of the running program.
func Build() Info {
	v := Info{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if release != "" {
		v.Version, v.Revision, v.Time = release, revision, date
	}
	return v
}

// String returns the version on one line.
func (v Info) String() string {
	revision := ""
	if v.Revision != "" {
		revision = " (" + v.Revision[:min(12, len(v.Revision))] + ")"
	}
	return "atoll " + v.Version + revision + " " + v.Go + " " + v.Platform
}
