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
	"testing"
)

const module = "github.com/atoll-sandbox/atoll"

// floors is the drawing of docs/house.md: imports go to lower floors only.
// A room that is not named stands on the floor of the nearest one above it
// in the tree.
var floors = map[string]int{
	".":                        0,
	"vfs":                      1,
	"internal/regex":           1,
	"shell/syntax":             1,
	"atolltest":                1,
	"internal/wire":            1,
	"internal/helper":          1,
	"internal/clustertest":     2,
	"internal/vt":              1,
	"internal/cgroup":          1,
	"internal/disk":            1,
	"internal/boot":            1,
	"internal/ext4":            1,
	"internal/qcow2":           1,
	"internal/keep":            1,
	"internal/kubeapi":         1,
	"internal/shellwire":       2,
	"internal/filelock":        1,
	"internal/musthave":        0,
	"internal/spell":           0,
	"internal/whole":           0,
	"internal/seccomp":         1,
	"internal/landlock":        1,
	"internal/jail":            1,
	"agent":                    1, // what stands on it: client, server, the agents themselves
	"internal/agenttest":       2,
	"agent/acp":                2,
	"agent/once":               2,
	"agent/claude":             3,
	"agent/codex":              3,
	"agent/command":            3,
	"agent/cursor":             3,
	"agent/gemini":             3,
	"agent/opencode":           3,
	"internal/dialect":         1,
	"internal/jsonrpc":         1,
	"internal/lenient":         1,
	"internal/skill":           1,
	"internal/projectfile":     1,
	"internal/npm":             1,
	"internal/model":           2,
	"internal/model/modeltest": 3,
	"internal/tool":            2,
	"internal/hook":            2,
	"internal/turn":            6,
	"internal/route":           6,
	"internal/assistant":       6,
	"internal/guest":           2,
	"internal/image":           2,
	"internal/machine":         2,
	"internal/virtiofs":        2,
	"internal/rootdisk":        3,
	"internal/inside":          3,
	"internal/sshd":            3,
	"internal/gate":            3,
	"client":                   2,
	"internal/mcp":             2,
	"internal/kernel":          2,
	"internal/awk":             2,
	"internal/jq":              2,
	"shell":                    3,
	"shell/command":            3,
	"driver":                   4,
	"internal/fleet":           5,
	"internal/proxy":           5,
	"internal/project":         5,
	"internal/web":             6,
	"internal/server":          7,
	"cmd":                      8,
	"examples":                 9,
	"bench":                    9,
	"test":                     9,
}

// top is the floor where drivers may be named.
const top = 8

func floorOf(dir string) (int, bool) {
	for d := dir; ; d = path.Dir(d) {
		if f, ok := floors[d]; ok && (d != "." || dir == ".") {
			return f, true
		}
		if d == "." {
			return 0, false
		}
	}
}

// source is one Go file of the house.
type source struct {
	name string // from the root, slash separated
	dir  string
	test bool
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
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
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(list))
	}
	return list
}

func (s source) imports() []string {
	var list []string
	for _, im := range s.file.Imports {
		if p, err := strconv.Unquote(im.Path.Value); err == nil {
			list = append(list, p)
		}
	}
	return list
}

func TestImportsGoDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		from, ok := floorOf(s.dir)
		if !ok {
			t.Errorf("%s: room %s is on no floor: add it to docs/house.md and to this table", s.name, s.dir)
			continue
		}
		for _, p := range s.imports() {
			inner, ours := strings.CutPrefix(p, module)
			if !ours {
				continue
			}
			inner = strings.TrimPrefix(inner, "/")
			if inner == "" {
				inner = "."
			}
			to, _ := floorOf(inner)
			closet := strings.HasPrefix(s.dir, inner+"/") || strings.HasPrefix(inner, s.dir+"/")
			if to >= from && !closet && s.dir != inner && from != 9 {
				t.Errorf("%s (floor %d) imports %s (floor %d)", s.name, from, inner, to)
			}
		}
	}
}

func TestRootKnowsOnlyTheStandardLibrary(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir != "." || s.test {
			continue
		}
		for _, p := range s.imports() {
			if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", s.name, p)
			}
		}
	}
}

func TestOnlyTheTopNamesDrivers(t *testing.T) {
	for _, s := range sources(t) {
		from, _ := floorOf(s.dir)
		if s.test || from >= top || strings.HasPrefix(s.dir, "driver/") {
			continue
		}
		for _, p := range s.imports() {
			if strings.HasPrefix(p, module+"/driver/") {
				t.Errorf("%s imports %s: only cmd and tests name drivers", s.name, p)
			}
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	comments := make(map[string][]string)
	packages := make(map[string]bool)
	for _, s := range sources(t) {
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

// calls reports every call of a package function or method by its name.
func (s source) calls(visit func(pos token.Position, call *ast.CallExpr, receiver, name string)) {
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

func TestNobodyDecidesByAnErrorsText(t *testing.T) {
	matchers := []string{"Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index"}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		s.calls(func(pos token.Position, call *ast.CallExpr, recv, name string) {
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

func TestOnlyTheKernelStartsGoroutines(t *testing.T) {
	rooms := []string{"shell", "shell/syntax", "shell/command", "vfs", "internal/regex", "internal/awk", "internal/jq"}
	for _, s := range sources(t) {
		if s.test || !slices.Contains(rooms, s.dir) {
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

func TestNoHiddenWiring(t *testing.T) {
	for _, s := range sources(t) {
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

func TestFilesAreOfReadableLength(t *testing.T) {
	for _, s := range sources(t) {
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
