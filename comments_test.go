package atoll_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

var (
	// seeName matches a reference in a comment, as in "see TestImportsGoDown".
	seeName = regexp.MustCompile(`\b[Ss]ee \[?([A-Z]\w*(?:\.[A-Z]\w*)*)\b`)
	// compoundName matches a first word that can only be the name of a declaration.
	compoundName = regexp.MustCompile(`^(?:[a-z]+\d*|[A-Z]\w*?[a-z])[A-Z]\w*$`)
)

// TestCommentsNameWhatExists checks that a doc comment does not begin with the name of something else, and
// that the names to which comments refer are declared in the package, in the root package, or are
// packages. A rename that forgets its comments sends readers searching.
func TestCommentsNameWhatExists(t *testing.T) {
	sources := listSources(t)
	declared := make(map[string]map[string]bool) // names by directory
	packages := make(map[string]bool)
	for _, s := range sources {
		dir := s.dir
		if declared[dir] == nil {
			declared[dir] = make(map[string]bool)
		}
		packages[s.file.Name.Name] = true
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				declared[dir][id.Name] = true
			}
			return true
		})
	}
	for _, s := range sources {
		known := declared[s.dir]
		for _, group := range s.file.Comments {
			for _, m := range seeName.FindAllStringSubmatch(group.Text(), -1) {
				for name := range strings.SplitSeq(m[1], ".") {
					if !known[name] && !declared["."][name] && !packages[name] {
						t.Errorf("%s: a comment refers to %s, and there is no %s in this package", s.fset.Position(group.Pos()), m[1], name)
					}
				}
			}
		}
		s.visitDocs(func(pos token.Pos, doc *ast.CommentGroup, names []string) {
			first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
			if !compoundName.MatchString(first) {
				return
			}
			for _, name := range names {
				if name == first {
					return
				}
			}
			t.Errorf("%s: the comment of %s begins with %s", s.fset.Position(pos), strings.Join(names, ", "), first)
		})
	}
}

// visitDocs calls visit for each declaration with a doc comment.
func (s source) visitDocs(visit func(pos token.Pos, doc *ast.CommentGroup, names []string)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil {
				visit(d.Pos(), d.Doc, []string{d.Name.Name})
			}
		case *ast.TypeSpec:
			if d.Doc != nil {
				visit(d.Pos(), d.Doc, []string{d.Name.Name})
			}
		case *ast.ValueSpec:
			if d.Doc != nil {
				visit(d.Pos(), d.Doc, namesOf(d.Names))
			}
		case *ast.Field:
			if d.Doc != nil && len(d.Names) > 0 {
				visit(d.Pos(), d.Doc, namesOf(d.Names))
			}
		case *ast.GenDecl:
			if d.Doc != nil && len(d.Specs) == 1 {
				switch spec := d.Specs[0].(type) {
				case *ast.TypeSpec:
					visit(d.Pos(), d.Doc, []string{spec.Name.Name})
				case *ast.ValueSpec:
					visit(d.Pos(), d.Doc, namesOf(spec.Names))
				}
			}
		}
		return true
	})
}

func namesOf(ids []*ast.Ident) []string {
	var names []string
	for _, id := range ids {
		names = append(names, id.Name)
	}
	return names
}
