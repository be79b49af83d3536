package main

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed template
var templates embed.FS

// archive is what installers know about the archive of a target.
type archive struct{ OS, Arch, Name, Digest string }

// installers are the files that are made of templates, which have the digests of the archives.
var installers = []struct {
	name string
	mode os.FileMode
}{{"install.sh", 0o755}, {"atoll.rb", 0o644}, {"compose.yaml", 0o644}}

// writeInstallers publishes the install script, the formula of Homebrew and compose.yaml. The first two
// contain the digests of the files that they fetch, so that they need no other file to check it.
func (r *release) writeInstallers(context.Context) error {
	data := struct {
		Version, Number, URL string
		Archives             []archive
	}{r.version, strings.TrimPrefix(r.version, "v"), r.url, nil}
	for _, t := range r.targets {
		sum, err := r.readDigest(r.archiveName(t))
		if err != nil {
			return err
		}
		data.Archives = append(data.Archives, archive{t.os, t.arch, r.archiveName(t), sum})
	}
	all, err := template.ParseFS(templates, "template/*")
	if err != nil {
		return err
	}
	for _, f := range installers {
		var b strings.Builder
		if err := all.ExecuteTemplate(&b, f.name, data); err != nil {
			return err
		}
		if err := r.writeArtifact(f.name, []byte(b.String()), f.mode); err != nil {
			return err
		}
	}
	return nil
}

// readPublished reads a file of the release.
func readPublished(dir, name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
