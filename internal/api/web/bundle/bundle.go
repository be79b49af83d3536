// Bundle builds internal/api/web/static from internal/api/web/source and the packages that
// scripts/web installs:
//
//	eval "$(scripts/web)" && go run ./internal/api/web/bundle
//
// While the console is developed, it serves what the source gives at each load of the page, before
// the API of a running server, and writes nothing:
//
//	eval "$(scripts/web)" && go run ./internal/api/web/bundle -serve 127.0.0.1:7090 -api http://127.0.0.1:7081
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evanw/esbuild/pkg/api"
)

// packages are the npm packages of the console. Their licences are included.
var packages = []string{
	"@codemirror/language", "@codemirror/merge", "@codemirror/state", "@codemirror/view", "@lezer/common", "@lezer/highlight",
	"@marijn/find-cluster-break", "crelt", "style-mod", "w3c-keyname", "@xterm/xterm", "@xterm/addon-fit", "@xterm/addon-unicode11", "@xterm/addon-web-links", "preact",
}

// sourceDir is the console's source, from the root of the repository.
const sourceDir = "internal/api/web/source"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run() error {
	modules := os.Getenv("ATOLL_WEB_MODULES")
	if modules == "" {
		return errors.New(`$ATOLL_WEB_MODULES is not set: eval "$(scripts/web)"`)
	}
	address := flag.String("serve", "", "serve the console on this address instead of writing it")
	server := flag.String("api", "http://127.0.0.1:7081", "server whose API the served console uses")
	flag.Parse()
	if *address != "" {
		return serve(*address, *server, modules)
	}
	files, err := build(sourceDir, modules)
	if err != nil {
		return err
	}
	old, err := filepath.Glob("internal/api/web/static/part-*.js") // their names change with what is in them
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join("internal/api/web/static", name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build returns the files of the console by name. The same source and packages give the same
// files.
func build(source, modules string) (map[string][]byte, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, err
	}
	if modules, err = filepath.Abs(modules); err != nil {
		return nil, err
	}
	// The names of parts depend on where files are from the working directory: all are below one, wherever they are.
	dir, err := os.MkdirTemp("", "atoll-bundle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Symlink(source, filepath.Join(dir, "source")), os.Symlink(modules, filepath.Join(dir, "node_modules"))); err != nil {
		return nil, err
	}
	out := api.Build(api.BuildOptions{
		AbsWorkingDir: dir, EntryPoints: []string{"source/app.ts", "source/app.css"}, Outdir: filepath.Join(dir, "out"), PreserveSymlinks: true,
		Bundle: true, Splitting: true, ChunkNames: "part-[hash]", Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformBrowser, Charset: api.CharsetUTF8,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsNone,
	})
	var errs []error
	for _, m := range slices.Concat(out.Errors, out.Warnings) {
		at := ""
		if m.Location != nil {
			at = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		errs = append(errs, errors.New(at+m.Text))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, f := range out.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(source, name)); err != nil {
			return nil, err
		}
	}
	var licences []byte
	for _, p := range packages {
		text, err := os.ReadFile(filepath.Join(modules, p, "LICENSE"))
		if err != nil {
			return nil, err
		}
		licences = append(licences, p+"\n\n"+string(text)+"\n"...)
	}
	files["LICENSES.txt"] = licences
	return files, nil
}
