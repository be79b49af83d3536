package atoll_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/atoll-sandbox/atoll"

// layers is the table of docs/architecture.md: packages import only lower layers. The longest
// matching directory counts. A directory that is not listed belongs to the layer of its parent.
var layers = map[string]int{
	".": 0,

	"vfs": 1, "atolltest": 1, "agent": 1, "internal/wire": 1, "internal/state": 1, "internal/isolation": 1,
	"internal/suggest": 1, "internal/helper": 1, "internal/sparse": 1, "internal/archive": 1, "shell/syntax": 1,

	"client": 2, "internal/egress/policy": 2, "internal/guest": 2, "internal/image": 2, "internal/model": 2, "internal/unix": 2,

	"shell": 3, "internal/egress": 3, "internal/vm": 3, "internal/project": 3, "internal/fleet": 3,
	"shell/command/internal/commandtest": 7, // imported by tests only

	"driver": 4, "internal/agents": 4, "internal/preview": 4,

	"internal/api": 5, "internal/testing": 5,

	"internal/cli": 6,

	"cmd": 7,

	"examples": 8, "bench": 8, "test": 8, "deploy": 8,
}

// wiring is the lowest layer whose packages may import drivers; internal/testing may, too.
const wiring = 7

// layerOf returns the layer of a directory, and the directory of the table that it belongs to.
func layerOf(dir string) (layer int, listed string) {
	for d := dir; d != "."; d = path.Dir(d) {
		if f, ok := layers[d]; ok {
			return f, d
		}
	}
	if dir == "." {
		return 0, "."
	}
	return -1, ""
}

// source is a Go file of this repository.
type source struct {
	name string // from the root, slash separated
	dir  string
	test bool
	file *ast.File
	fset *token.FileSet
}

// parseSources parses all Go files of this repository, once for all tests.
var parseSources = sync.OnceValues(func() ([]source, error) {
	var list []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		list = append(list, source{slash, path.Dir(slash), strings.HasSuffix(name, "_test.go"), f, fset})
		return nil
	})
	return list, err
})

func listSources(t *testing.T) []source {
	t.Helper()
	list, err := parseSources()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(list))
	}
	return list
}

func (s source) listImports() []string {
	var list []string
	for _, im := range s.file.Imports {
		if p, err := strconv.Unquote(im.Path.Value); err == nil {
			list = append(list, p)
		}
	}
	return list
}

func TestImportsGoDown(t *testing.T) {
	for _, s := range listSources(t) {
		if s.test {
			continue
		}
		from, listed := layerOf(s.dir)
		if from < 0 {
			t.Errorf("%s: directory %s has no layer: add it to docs/architecture.md and to this table", s.name, s.dir)
			continue
		}
		for _, p := range s.listImports() {
			inner, ours := strings.CutPrefix(p, module)
			if !ours {
				continue
			}
			inner = strings.TrimPrefix(inner, "/")
			if inner == "" {
				inner = "."
			}
			to, other := layerOf(inner)
			if to >= from && other != listed && from < layers["test"] {
				t.Errorf("%s (layer %d) imports %s (layer %d)", s.name, from, inner, to)
			}
		}
	}
}

func TestRootImportsOnlyStandardLibrary(t *testing.T) {
	for _, s := range listSources(t) {
		if s.dir != "." || s.test {
			continue
		}
		for _, p := range s.listImports() {
			if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", s.name, p)
			}
		}
	}
}

func TestOnlyWiringImportsDrivers(t *testing.T) {
	for _, s := range listSources(t) {
		from, _ := layerOf(s.dir)
		if s.test || from >= wiring || strings.HasPrefix(s.dir, "driver/") || strings.HasPrefix(s.dir, "internal/testing/") {
			continue
		}
		for _, p := range s.listImports() {
			if strings.HasPrefix(p, module+"/driver/") {
				t.Errorf("%s imports %s: only cmd and tests name drivers", s.name, p)
			}
		}
	}
}

// TestRandomTestsAreRepeatable checks that .ci/run can set the seed of every random test.
func TestRandomTestsAreRepeatable(t *testing.T) {
	for _, s := range listSources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Check" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "rapid" {
					t.Errorf("%s: rapid.Check: use internal/testing/rapidtest", s.fset.Position(sel.Pos()))
				}
			}
			return true
		})
	}
}

func TestOnePackageComment(t *testing.T) {
	comments := make(map[string][]string)
	packages := make(map[string]bool)
	for _, s := range listSources(t) {
		if s.test {
			continue
		}
		packages[s.dir] = true
		if s.file.Doc != nil {
			comments[s.dir] = append(comments[s.dir], s.name)
		}
	}
	for dir := range packages {
		if n := len(comments[dir]); n != 1 {
			t.Errorf("package %s has %d package comments (%s), want 1", dir, n, strings.Join(comments[dir], ", "))
		}
	}
}

// visitCalls calls visit for every call of a package function or method.
func (s source) visitCalls(visit func(pos token.Position, call *ast.CallExpr, receiver, name string)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				recv := ""
				if id, ok := sel.X.(*ast.Ident); ok {
					recv = id.Name
				}
				visit(s.fset.Position(call.Pos()), call, recv, sel.Sel.Name)
			}
		}
		return true
	})
}

func TestNoDecisionByErrorText(t *testing.T) {
	matchers := []string{"Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index"}
	for _, s := range listSources(t) {
		if s.test {
			continue
		}
		s.visitCalls(func(pos token.Position, call *ast.CallExpr, recv, name string) {
			if recv != "strings" || !slices.Contains(matchers, name) || len(call.Args) == 0 {
				return
			}
			if inner, ok := call.Args[0].(*ast.CallExpr); ok {
				if sel, ok := inner.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" && len(inner.Args) == 0 {
					t.Errorf("%s: strings.%s of an error's text: use errors.Is", pos, name)
				}
			}
		})
	}
}

// TestOnlyKernelStartsGoroutines checks that nothing else in a virtual sandbox starts goroutines, except the engine of
// JavaScript, which its process interrupts and waits for (docs/rationale.md, 306).
func TestOnlyKernelStartsGoroutines(t *testing.T) {
	dirs := []string{"shell", "vfs", "internal/unix/regex", "internal/unix/awk", "internal/unix/jq"} // and the packages below them
	for _, s := range listSources(t) {
		if s.test || path.Base(s.dir) == "commandtest" || s.dir == "shell/command/javascript" || !slices.ContainsFunc(dirs, func(d string) bool { return s.dir == d || strings.HasPrefix(s.dir, d+"/") }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a goroutine outside of the kernel, which can't end it", s.fset.Position(g.Pos()))
			}
			return true
		})
	}
}

// TestCommandFamiliesAreIndependent checks that a family of commands imports no
// other family, and that the packages they share import none.
func TestCommandFamiliesAreIndependent(t *testing.T) {
	const dir = "shell/command/"
	shared := func(p string) bool {
		return p == "program" || strings.HasPrefix(p, "internal/")
	}
	for _, s := range listSources(t) {
		if s.test || !strings.HasPrefix(s.dir, dir) || s.dir == dir+"internal/commandtest" {
			continue
		}
		for _, p := range s.listImports() {
			other, ours := strings.CutPrefix(p, module+"/"+dir)
			if ours && !shared(other) || p == module+"/"+strings.TrimSuffix(dir, "/") {
				t.Errorf("%s imports %s: move what they share below shell/command/internal", s.name, p)
			}
		}
	}
}

// TestHelpersInheritNothing checks that what starts a helper process seals the descriptors that this
// process has inherited: fdpass.SealInherited.
func TestHelpersInheritNothing(t *testing.T) {
	dirs := []string{"internal/vm", "internal/isolation", "internal/egress", "internal/helper", "driver"}
	found := 0
	for _, s := range listSources(t) {
		if s.test || strings.Contains(s.dir, "testdata") || !slices.ContainsFunc(dirs, func(d string) bool { return s.dir == d || strings.HasPrefix(s.dir, d+"/") }) {
			continue
		}
		for _, d := range s.file.Decls {
			starts, seals := token.Position{}, false
			ast.Inspect(d, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					pkg, _ := sel.X.(*ast.Ident)
					switch {
					case pkg == nil:
					case pkg.Name == "exec" && strings.HasPrefix(sel.Sel.Name, "Command"), (pkg.Name == "os" || pkg.Name == "syscall") && sel.Sel.Name == "StartProcess":
						starts = s.fset.Position(n.Pos())
					case pkg.Name == "fdpass" && sel.Sel.Name == "SealInherited":
						seals = true
					}
				}
				return true
			})
			if starts.IsValid() {
				found++
				if !seals {
					t.Errorf("%s: a process that inherits descriptors: call fdpass.SealInherited first", starts)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d functions that start processes found", found)
	}
}

func TestNoHiddenWiring(t *testing.T) {
	for _, s := range listSources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init", s.name)
			}
		}
		for _, im := range s.file.Imports {
			if im.Name != nil && im.Name.Name == "_" && im.Path.Value != `"embed"` && im.Path.Value != `"time/tzdata"` {
				t.Errorf("%s: blank import of %s", s.name, im.Path.Value)
			}
		}
	}
}

func TestFileLength(t *testing.T) {
	for _, s := range listSources(t) {
		if n := s.fset.File(s.file.Pos()).LineCount(); n > 700 && !s.test {
			t.Errorf("%s has %d lines; a file has at most 700", s.name, n)
		}
	}
}

func TestModuleStandsAlone(t *testing.T) {
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod: %s", line)
		}
	}
}
