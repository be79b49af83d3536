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

// mains are the names that the main file may have; the second is tolerated.
var mains = []string{"SKILL.md", "skill.md"}

// Validate checks a skill's directory to the letter of the format. dir is its
// name, which the skill's must be, and is what stands before the files that are told.
func Validate(fsys fs.FS, dir string) []Problem {
	_, f := one(plain{fsys}, dir, false)
	f.list = append(f.list, survey(fsys, dir)...)
	return f.list
}

// Open reads what can be used of a skill's directory; dir is its name. What can't
// be read stays empty.
func Open(fsys fs.FS, dir string) Skill {
	s, _ := one(plain{fsys}, dir, true)
	s.Dir, s.Files = dir, plain{fsys}
	return s
}

// Load reads what can be used of a directory of skills, by name; what is only
// unorderly is told, and used. Directories without a SKILL.md are none. An FS
// of a directory that others write to is that of [Within].
func Load(raw fs.FS) ([]Skill, []Problem, error) {
	fsys := plain{raw}
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
		sub := plain{inner}
		s, f := one(sub, e.Name(), true)
		if !fatal(f.list) {
			f.list = append(f.list, survey(inner, e.Name())...)
		}
		if first, twice := from[s.Name]; twice && !fatal(f.list) {
			f.fatal(0, "name", "%q is that of %s already", s.Name, first)
		}
		problems = append(problems, f.list...)
		if fatal(f.list) {
			continue
		}
		from[s.Name] = e.Name()
		s.Dir, s.Files = e.Name(), sub
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	return list, problems, nil
}

func fatal(list []Problem) bool {
	return slices.ContainsFunc(list, func(p Problem) bool { return p.Fatal })
}

// mainFile returns the name of the main file of a directory; empty: none.
func mainFile(fsys fs.FS, dir string) string {
	for _, name := range mains {
		if info, err := fs.Stat(fsys, path.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// one reads the skill of a directory.
func one(fsys fs.FS, dir string, lenient bool) (Skill, *faults) {
	f := &faults{file: path.Join(dir, mains[0])}
	main := mainFile(fsys, ".")
	if main == "" {
		f.fatal(0, "", "it is missing")
		return Skill{}, f
	}
	f.file = path.Join(dir, main)
	if main != mains[0] {
		f.add(0, "", "its name must be SKILL.md")
	}
	b, err := readFile(fsys, main)
	if err != nil {
		f.fatal(0, "", "%v", err)
		return Skill{}, f
	}
	top, body, ok := split(b, f)
	if !ok {
		return Skill{}, f
	}
	n := parse(top, f, lenient)
	if n == nil {
		return Skill{}, f
	}
	if !lenient {
		plainYAML(n, f)
	}
	h := read(n, f)
	h.check(path.Base(dir), f)
	s := h.skill
	s.Body = string(body)
	if lenient && len(badName(s.Name)) > 0 {
		s.Name = path.Base(dir)
		if !usable(s.Name) {
			f.fatal(h.lines["name"], "name", "neither it nor that of the directory can be used")
		}
	}
	return s, f
}

// usable reports whether a name that is not to the letter harms nobody: agents
// have directories of that name.
func usable(name string) bool {
	return name != "" && len(name) <= 100 && !strings.HasPrefix(name, ".") && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|$`+"`", r)
	})
}

// readFile reads a file of a bearable size.
func readFile(fsys fs.FS, name string) (b []byte, err error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b, err = io.ReadAll(io.LimitReader(file, maxMain+1)); err == nil && len(b) > maxMain {
		err = fmt.Errorf("it has more than %d bytes: what is seldom needed stands in files beside it", maxMain)
	}
	return b, err
}
