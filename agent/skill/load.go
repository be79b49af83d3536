package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// mainFileNames are the accepted names of the main file; the second one is a fault.
var mainFileNames = []string{"SKILL.md", "skill.md"}

// Validate checks a skill's directory against the format strictly. dir is the
// directory's name: the skill must have it, and it precedes the files in problems.
func Validate(fsys fs.FS, dir string) []Problem {
	_, f := readSkill(regularFS{fsys}, dir, false)
	f.list = append(f.list, checkFiles(fsys, dir)...)
	return f.list
}

// Open reads the usable parts of a skill's directory; dir is its name. Parts that
// can't be read stay empty.
func Open(fsys fs.FS, dir string) Skill {
	s, _ := readSkill(regularFS{fsys}, dir, true)
	s.Dir, s.Files = dir, regularFS{fsys}
	return s
}

// Load reads the usable skills of a directory of skills, sorted by name. A skill
// with faults that are not fatal is reported and loaded. Directories without a
// SKILL.md are ignored. For a directory that others write to, pass the FS of
// [DirFS].
func Load(raw fs.FS) ([]Skill, []Problem, error) {
	fsys := regularFS{raw}
	entries, err := fs.ReadDir(fsys, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("skills: %w", err)
	}
	var list []Skill
	var problems []Problem
	from := make(map[string]string)
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || mainFile(fsys, e.Name()) == "" {
			continue
		}
		if len(list) == maxSkills {
			return nil, nil, fmt.Errorf("skills: %w: there are more than %d", atoll.ErrQuota, maxSkills)
		}
		inner, err := fs.Sub(raw, e.Name())
		if err != nil {
			return nil, nil, fmt.Errorf("skills: %w", err)
		}
		sub := regularFS{inner}
		s, f := readSkill(sub, e.Name(), true)
		if !hasFatal(f.list) {
			f.list = append(f.list, checkFiles(inner, e.Name())...)
		}
		if first, twice := from[s.Name]; twice && !hasFatal(f.list) {
			f.addFatal(0, "name", "%q is that of %s already", s.Name, first)
		}
		problems = append(problems, f.list...)
		if hasFatal(f.list) {
			continue
		}
		from[s.Name] = e.Name()
		s.Dir, s.Files = e.Name(), sub
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	return list, problems, nil
}

func hasFatal(list []Problem) bool {
	return slices.ContainsFunc(list, func(p Problem) bool { return p.Fatal })
}

// mainFile returns the name of the main file in a directory; "" if there is none.
func mainFile(fsys fs.FS, dir string) string {
	for _, name := range mainFileNames {
		if info, err := fs.Stat(fsys, path.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// readSkill reads the skill of a directory, strictly unless lenient is set.
func readSkill(fsys fs.FS, dir string, lenient bool) (Skill, *problemList) {
	f := &problemList{file: path.Join(dir, mainFileNames[0])}
	main := mainFile(fsys, ".")
	if main == "" {
		f.addFatal(0, "", "it is missing")
		return Skill{}, f
	}
	f.file = path.Join(dir, main)
	if main != mainFileNames[0] {
		f.add(0, "", "its name must be SKILL.md")
	}
	b, err := readFile(fsys, main)
	if err != nil {
		f.addFatal(0, "", "%v", err)
		return Skill{}, f
	}
	top, body, ok := splitHead(b, f)
	if !ok {
		return Skill{}, f
	}
	n := parseHead(top, f, lenient)
	if n == nil {
		return Skill{}, f
	}
	if !lenient {
		checkPlainYAML(n, f)
	}
	h := readFields(n, f)
	h.checkFields(path.Base(dir), f)
	s := h.skill
	s.Body = string(body)
	if lenient && len(nameFaults(s.Name)) > 0 {
		s.Name = path.Base(dir)
		if !isUsableName(s.Name) {
			f.addFatal(h.lines["name"], "name", "neither it nor the directory's name can be used")
		}
	}
	return s, f
}

// isUsableName reports whether a name that violates the format is still safe as
// the name of a directory.
func isUsableName(name string) bool {
	return name != "" && len(name) <= 100 && !strings.HasPrefix(name, ".") && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|$`+"`", r)
	})
}

// readFile reads a file of at most maxMain bytes.
func readFile(fsys fs.FS, name string) (b []byte, err error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b, err = io.ReadAll(io.LimitReader(file, maxMain+1)); err == nil && len(b) > maxMain {
		err = fmt.Errorf("it has more than %d bytes: move parts that are rarely needed to files beside it", maxMain)
	}
	return b, err
}
