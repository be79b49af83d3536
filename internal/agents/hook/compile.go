package hook

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/atoll-sandbox/atoll"
)

//go:embed prelude.js
var prelude string

// Limits of a script's sources.
const (
	maxFile    = 512 << 10 // bytes of a file
	maxFiles   = 200
	maxNesting = 500 // of brackets in a file
	maxTokens  = 50_000
)

// Problem is an error in a file of hooks.
type Problem struct {
	File         string
	Line, Column int // from 1; 0: the whole file
	Text         string
}

func (p *Problem) Error() string {
	switch {
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	case p.Column == 0:
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Unwrap returns ErrInvalid.
func (p *Problem) Unwrap() error { return atoll.ErrInvalid }

// Compile compiles a file (src/index.ts) and its imports, which must be in fsys.
// Errors in them are ErrInvalid; each is a *Problem with file, line and column.
func Compile(fsys fs.FS, name string) (*Script, error) {
	s, _, err := compileScript(fsys, name)
	return s, err
}

// Cache keeps compiled scripts while their source files are unchanged. The zero
// Cache is ready to use. Its methods are safe for concurrent use.
type Cache struct {
	mu sync.Mutex

	entries map[string]cacheEntry // by the SHA-256 of the first file, and its name
}

type cacheEntry struct {
	script *Script
	seen   map[string]sum // all files that were looked up
}

// sum is the SHA-256 of a file; zero: the file does not exist.
type sum [sha256.Size]byte

// maxCached is the number of scripts in a Cache; beyond it, the Cache is emptied.
const maxCached = 1000

// Compile is the function Compile with a cache.
func (c *Cache) Compile(fsys fs.FS, name string) (*Script, error) {
	first, err := sumOf(fsys, name)
	if err != nil {
		return nil, err
	}
	key := string(first[:]) + name
	c.mu.Lock()
	e, ok := c.entries[key]
	c.mu.Unlock()
	if ok && e.isFresh(fsys) {
		return e.script, nil
	}
	s, seen, err := compileScript(fsys, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCached {
		c.entries = make(map[string]cacheEntry)
	}
	c.entries[key] = cacheEntry{s, seen}
	return s, nil
}

func (e cacheEntry) isFresh(fsys fs.FS) bool {
	for name, was := range e.seen {
		if now, err := sumOf(fsys, name); err != nil || now != was {
			return false
		}
	}
	return true
}

// sumOf returns the sum of a file; zero for a missing one.
func sumOf(fsys fs.FS, name string) (sum, error) {
	b, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return sum{}, nil
	}
	return sha256.Sum256(b), err
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = &Problem{File: name, Text: fmt.Sprintf("more than %d KiB: too much for a file of hooks", maxFile>>10)}
	}
	return b, err
}

func compileScript(fsys fs.FS, name string) (*Script, map[string]sum, error) {
	b := &bundler{fsys: fsys, entry: name, seen: make(map[string]sum)}
	code, mapped, err := b.buildCode()
	if err != nil {
		return nil, nil, err
	}
	lines, err := readSourceMap(mapped)
	if err != nil {
		return nil, nil, err
	}
	for i, s := range lines.sources {
		lines.sources[i] = strings.TrimPrefix(s, namespace+":")
	}
	head := "(function(d,r){d('find',r[0],r[1]);return d})(" + prelude + ",\n"
	lines.offset = strings.Count(head, "\n")
	s := &Script{name: name, code: head + code + "\n)", lines: lines, slots: make(chan struct{}, maxConcurrent)}
	if err := s.findFunctions(); err != nil {
		return nil, nil, err
	}
	return s, b.seen, nil
}

// findFunctions runs the script's top level to find its functions.
func (s *Script) findFunctions() error {
	r := &execution{script: s, function: "the top level", scope: &Scope{}, limits: Limits{}.withDefaults()}
	names, err := r.functionNames(context.Background())
	var t *ThrownError
	switch {
	case errors.As(err, &t):
		p := &Problem{File: s.name, Text: "at the top level: " + t.Message}
		if f := stackPlace.FindStringSubmatch(t.Stack); f != nil {
			p.File, p.Line, p.Column = f[1], parseDigits(f[2]), parseDigits(f[3])
		}
		return p
	case err != nil:
		return &Problem{File: s.name, Text: err.Error()}
	}
	s.functions = strings.Fields(names)
	slices.Sort(s.functions)
	if len(s.functions) == 0 {
		return &Problem{File: s.name, Text: "it has neither a function Create nor Next"}
	}
	return nil
}

// bundler bundles a file and its imports into one script.
type bundler struct {
	fsys  fs.FS
	entry string

	mu sync.Mutex

	seen map[string]sum // guarded by mu
}

// namespace is esbuild's namespace for files of fsys; all files are read through it.
const namespace = "hooks"

// exportHooks is appended to the first file, so that hooks need not be exported.
const exportHooks = "\n;$plain.Create=typeof Create===\"function\"?Create:void 0;$plain.Next=typeof Next===\"function\"?Next:void 0;"

func (b *bundler) buildCode() (code string, sourceMap []byte, err error) {
	if !fs.ValidPath(b.entry) {
		return "", nil, &Problem{File: b.entry, Text: "is no path"}
	}
	res := api.Build(api.BuildOptions{
		EntryPoints:      []string{b.entry},
		Bundle:           true,
		Format:           api.FormatIIFE,
		GlobalName:       "$exports",
		Platform:         api.PlatformNeutral,
		Target:           api.ES2023,
		Charset:          api.CharsetUTF8,
		Sourcemap:        api.SourceMapExternal,
		MinifyWhitespace: true, // indentation grows with the square of the nesting
		SourcesContent:   api.SourcesContentExclude,
		LegalComments:    api.LegalCommentsNone,
		Outfile:          "hooks.js",
		TsconfigRaw:      "{}",
		LogLevel:         api.LogLevelSilent,
		Banner:           map[string]string{"js": "(function(){var $plain={};"},
		Footer:           map[string]string{"js": "return [$plain,$exports]})()"},
		Plugins:          []api.Plugin{{Name: namespace, Setup: b.registerPlugin}},
	})
	if len(res.Errors) > 0 {
		return "", nil, b.convertMessages(res.Errors)
	}
	for _, f := range res.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			code = strings.TrimSpace(string(f.Contents))
		}
	}
	return code, sourceMap, nil
}

// convertMessages converts esbuild's messages to Problems.
func (b *bundler) convertMessages(list []api.Message) error {
	errs := make([]error, 0, len(list))
	for _, m := range list {
		p := &Problem{File: b.entry, Text: m.Text}
		if l := m.Location; l != nil {
			p.File, p.Line, p.Column = strings.TrimPrefix(l.File, namespace+":"), l.Line, l.Column+1
		}
		if own, ok := m.Detail.(*Problem); ok && m.Location == nil {
			p = own
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (b *bundler) registerPlugin(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		name, err := b.resolveImport(a)
		return api.OnResolveResult{Path: name, Namespace: namespace}, err
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		text, err := b.load(a.Path)
		var p *Problem
		if errors.As(err, &p) {
			return api.OnLoadResult{Errors: []api.Message{{Text: p.Text, Detail: p}}}, nil
		}
		return api.OnLoadResult{Contents: &text, Loader: loaders[path.Ext(a.Path)]}, err
	})
}

var loaders = map[string]api.Loader{
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS,
	".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
}

// resolveImport returns the file that an import refers to.
func (b *bundler) resolveImport(a api.OnResolveArgs) (string, error) {
	if a.Kind == api.ResolveEntryPoint {
		return b.entry, nil
	}
	if !strings.HasPrefix(a.Path, "./") && !strings.HasPrefix(a.Path, "../") {
		return "", fmt.Errorf("import of %q: hooks import files beside them (\"./name\"), and nothing else", a.Path)
	}
	name := path.Join(path.Dir(a.Importer), a.Path)
	if !fs.ValidPath(name) {
		return "", fmt.Errorf("import of %q leads out of the assistant's directory", a.Path)
	}
	tries := []string{name, name + ".ts", name + ".js", name + ".mjs", name + "/index.ts", name + "/index.js"}
	if js, ok := strings.CutSuffix(name, ".js"); ok {
		tries = slices.Insert(tries, 1, js+".ts") // the resolution of TypeScript
	}
	for _, n := range tries {
		s, err := sumOf(b.fsys, n)
		if err != nil {
			return "", err
		}
		b.mu.Lock()
		b.seen[n] = s
		count := len(b.seen)
		b.mu.Unlock()
		if count > maxFiles*len(tries) {
			return "", fmt.Errorf("more than %d files are imported", maxFiles)
		}
		if s == (sum{}) {
			continue
		}
		if _, known := loaders[path.Ext(n)]; !known {
			return "", fmt.Errorf("import of %q: it must be .ts, .js, .json, .txt or .md", a.Path)
		}
		return n, nil
	}
	return "", fmt.Errorf("import of %q: there is no such file", a.Path)
}

func (b *bundler) load(name string) (string, error) {
	data, err := readFile(b.fsys, name)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	b.seen[name] = sha256.Sum256(data)
	b.mu.Unlock()
	text := string(data)
	switch path.Ext(name) {
	case ".txt", ".md":
		return text, nil
	}
	if p := checkNesting(text); p != nil {
		p.File = name
		return "", p
	}
	if name == b.entry {
		text += exportHooks
	}
	return text, nil
}

// checkNesting reports a text that could make the bundler recurse too deep for the
// stack. A level needs at least one token, such as "!", so it limits the tokens;
// brackets have a lower limit with a clearer message. It does not recognize strings
// and comments: their words count, and their brackets are usually balanced.
func checkNesting(text string) *Problem {
	depth, line, tokens := 0, 1, 0
	word := false
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
		if !letter && c > ' ' || letter && !word {
			tokens++
		}
		word = letter
		switch c {
		case '\n':
			line++
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return &Problem{Line: line, Text: fmt.Sprintf("brackets are nested more than %d deep", maxNesting)}
		}
		if tokens > maxTokens {
			return &Problem{Line: line, Text: fmt.Sprintf("more than %d words and signs are too many for one file of hooks", maxTokens)}
		}
	}
	return nil
}
