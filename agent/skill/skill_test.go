package skill_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent/skill"
)

// seedExample is a skill with every field of the format.
const seedExample = `---
name: code-review                    # must match the directory
description: >
  Review code for bugs, security issues, and best practices.
  Use when the user asks to review code.
license: Apache-2.0
compatibility: Requires git
metadata:
  author: a-team
  version: "1.0"
allowed-tools: Bash(git:*) Bash(npm run test) Read
---

# Code Review

## Steps
1. Look.
---
`

func makeHead(lines ...string) string { return "---\n" + strings.Join(lines, "\n") + "\n---\nBody\n" }

func TestValidate(t *testing.T) {
	long := strings.Repeat("ä", 65)
	for _, c := range []struct {
		law  string
		dir  string
		text string
		want []string // of problems; empty: it is valid
	}{
		{"EveryField", "code-review", seedExample, nil},
		{"Minimal", "a", makeHead("name: a", "description: x"), nil},
		{"LowercaseMainIsToldOf", "low", "", []string{"low/skill.md: its name must be SKILL.md"}},
		{"LettersOfAnyScript", "größe-1", makeHead("name: größe-1", "description: x"), nil},
		{"NamesAreComparedInNFKC", "ﬁle", makeHead("name: file", "description: x"), nil},
		{"CRLF", "a", "---\r\nname: a\r\ndescription: x\r\n---\r\nBody\r\n", nil},
		{"AllScalarsAreTexts", "a", makeHead("name: a", "description: 12", "metadata:", "  version: 1.0", "  on: true", "  none: null"), nil},
		{"EmptyMetadata", "a", makeHead("name: a", "description: x", "metadata:"), nil},
		{"NoBody", "a", "---\nname: a\ndescription: x\n---", nil},
		{"RuleInTheBody", "a", makeHead("name: a", "description: x") + "\n---\nmore\n---\n", nil},
		{"DashesInAValue", "a", makeHead("name: a", "description: x --- y"), nil},

		{"Empty", "a", "", []string{"a/SKILL.md:1: it must begin with a line ---"}},
		{"NoHead", "a", "# Skill\n", []string{"a/SKILL.md:1: it must begin with a line ---"}},
		{"HeadIsNotClosed", "a", "---\nname: a\n", []string{"a/SKILL.md:1: the line --- that ends"}},
		{"EmptyHead", "a", "---\n---\n", []string{"a/SKILL.md:1: it is not valid YAML: it is empty"}},
		{"HeadIsAList", "a", makeHead("- a"), []string{"a/SKILL.md:2: its head must be a mapping"}},
		{"HeadIsNoYAML", "a", makeHead("name: a", "description: [x"), []string{"a/SKILL.md:"}},
		{"ColonInAText", "a", makeHead("name: a", "description: Use when: asked"), []string{"a/SKILL.md:3: it is not valid YAML"}},
		{"ByteOrderMark", "a", "\uFEFF" + makeHead("name: a", "description: x"), []string{"a/SKILL.md:1: it begins with a byte order mark"}},
		{"NotText", "a", "---\nname: a\ndescription: \xff\n---\n", []string{"a/SKILL.md: it is not UTF-8"}},
		{"NoName", "a", makeHead("description: x"), []string{"a/SKILL.md:1: name: it is missing"}},
		{"EmptyName", "a", makeHead("name:", "description: x"), []string{"a/SKILL.md:2: name: it is empty", `it is ""`}[:1]},
		{"NameIsNotTheDirectory", "b", makeHead("name: a", "description: x"), []string{`b/SKILL.md:2: name: it is "a", and the directory "b"`}},
		{"UppercaseName", "PDF-Processing", makeHead("name: PDF-Processing", "description: x"), []string{"PDF-Processing/SKILL.md:2: name: it must be lower case"}},
		{"NameBeginsWithHyphen", "-pdf", makeHead("name: -pdf", "description: x"), []string{"-pdf/SKILL.md:2: name: it must not begin"}},
		{"NameEndsWithHyphen", "pdf-", makeHead("name: pdf-", "description: x"), []string{"pdf-/SKILL.md:2: name: it must not begin or end"}},
		{"TwoHyphens", "pdf--x", makeHead("name: pdf--x", "description: x"), []string{"pdf--x/SKILL.md:2: name: it must not have two hyphens"}},
		{"UnderscoreInName", "a_b", makeHead("name: a_b", "description: x"), []string{"a_b/SKILL.md:2: name: it may have letters"}},
		{"NameIsTooLong", long, makeHead("name: "+long, "description: x"), []string{long + "/SKILL.md:2: name: it has more than 64"}},
		{"LongestName", long[2:], makeHead("name: "+long[2:], "description: x"), nil},
		{"NoDescription", "a", makeHead("name: a"), []string{"a/SKILL.md:1: description: it is missing"}},
		{"BlankDescription", "a", makeHead("name: a", `description: "  "`), []string{"a/SKILL.md:3: description: it is empty"}},
		{"LongestDescription", "a", makeHead("name: a", "description: "+strings.Repeat("ä", 1024)), nil},
		{"DescriptionIsTooLong", "a", makeHead("name: a", "description: "+strings.Repeat("ä", 1025)), []string{"a/SKILL.md:3: description: it has 1025 characters"}},
		{"LongestCompatibility", "a", makeHead("name: a", "description: x", "compatibility: "+strings.Repeat("ä", 500)), nil},
		{"CompatibilityIsTooLong", "a", makeHead("name: a", "description: x", "compatibility: "+strings.Repeat("ä", 501)), []string{"a/SKILL.md:4: compatibility: it has 501"}},
		{"EmptyCompatibility", "a", makeHead("name: a", "description: x", "compatibility:"), []string{"a/SKILL.md:4: compatibility: it is empty"}},
		{"CompatibilityIsAText", "a", makeHead("name: a", "description: x", "compatibility:", "  - git"), []string{"a/SKILL.md:5: compatibility: it must be a text"}},
		{"UnknownField", "a", makeHead("name: a", "description: x", "version: 1"), []string{"a/SKILL.md:4: version: unknown field"}},
		{"FieldTwice", "a", makeHead("name: a", "name: a", "description: x"), []string{"a/SKILL.md:3: name: is set already in line 2"}},
		{"MetadataIsAText", "a", makeHead("name: a", "description: x", "metadata: x"), []string{"a/SKILL.md:4: metadata: it must be a mapping"}},
		{"MetadataIsFlat", "a", makeHead("name: a", "description: x", "metadata:", "  a:", "    b: c"), []string{"a/SKILL.md:5: metadata.a: it must be a text"}},
		{"ToolsAreOneText", "a", makeHead("name: a", "description: x", "allowed-tools:", "  - Read", "  - Grep"), []string{"a/SKILL.md:5: allowed-tools: it must be one text"}},
		{"NoFlow", "a", makeHead("name: a", "description: x", "metadata: {a: b}"), []string{"a/SKILL.md:4: {} and [] are not allowed"}},
		{"NoAnchors", "a", makeHead("name: &n a", "description: x"), []string{"a/SKILL.md:2: &n: anchors"}},
		{"NoAliases", "a", makeHead("name: &n a", "description: *n"), []string{"a/SKILL.md:2: &n: anchors", "a/SKILL.md:3: *n: aliases"}},
		{"NoTags", "a", makeHead("name: !!str a", "description: x"), []string{"a/SKILL.md:2: !!str: tags"}},
		{"ManyAtOnce", "a", makeHead("name: B", "license: [x]", "nope: 1"), []string{"a/SKILL.md:3: {} and []", "a/SKILL.md:3: license: it must be a text", "a/SKILL.md:4: nope:", "a/SKILL.md:2: name: it must be lower", "a/SKILL.md:2: name: it is \"B\"", "a/SKILL.md:1: description: it is missing"}},
	} {
		t.Run(c.law, func(t *testing.T) {
			fsys := fstest.MapFS{"SKILL.md": {Data: []byte(c.text)}}
			if c.dir == "low" {
				fsys = fstest.MapFS{"skill.md": {Data: []byte(makeHead("name: low", "description: x"))}}
			}
			var got []string
			for _, p := range skill.Validate(fsys, c.dir) {
				got = append(got, p.String())
			}
			ok := len(got) == len(c.want)
			for i := range min(len(got), len(c.want)) {
				ok = ok && strings.HasPrefix(got[i], c.want[i])
			}
			if !ok {
				t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	if p := skill.Validate(fstest.MapFS{"README.md": {}}, "a"); len(p) != 1 || p[0].String() != "a/SKILL.md: it is missing" {
		t.Errorf("a directory without a skill: %v", p)
	}
}

func TestLoadReadsAll(t *testing.T) {
	list, problems, err := skill.Load(fstest.MapFS{
		"code-review/SKILL.md":       {Data: []byte(seedExample)},
		"code-review/scripts/x.sh":   {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"code-review/references/a/b": {Data: []byte("b")},
		"README.md":                  {},
		"notes/README.md":            {},
		".git/SKILL.md":              {Data: []byte(makeHead("name: git", "description: x"))},
	})
	if err != nil || len(problems) != 0 || len(list) != 1 {
		t.Fatalf("%v, %v, %v", list, problems, err)
	}
	s := list[0]
	s.Files = nil
	want := skill.Skill{
		Name: "code-review", Description: "Review code for bugs, security issues, and best practices. Use when the user asks to review code.", License: "Apache-2.0",
		Compatibility: "Requires git", Metadata: map[string]string{"author": "a-team", "version": "1.0"}, AllowedTools: []string{"Bash(git:*)", "Bash(npm run test)", "Read"},
		Body: "# Code Review\n\n## Steps\n1. Look.\n---", Dir: "code-review",
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	res, err := list[0].Resources()
	if d := cmp.Diff([]skill.Resource{{"references/a/b", 1}, {"scripts/x.sh", 10}}, res); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestLoadIsLenient(t *testing.T) {
	for _, c := range []struct {
		law, dir, text string
		want           string // name: description: tools; empty: it is not loaded
		problems       int
	}{
		{"ListOfTools", "a", makeHead("name: a", "description: x", "allowed-tools:", "  - Read", "  - Grep"), "a: x: [Read Grep]", 1},
		{"FlowListOfTools", "a", makeHead("name: a", "description: x", "allowed-tools: [Read, 'Bash(git:*)']"), "a: x: [Read Bash(git:*)]", 1},
		{"UnknownField", "a", makeHead("name: a", "description: x", "model: opus"), "a: x: []", 1},
		{"NameIsNotTheDirectory", "b", makeHead("name: a", "description: x"), "a: x: []", 1},
		{"OddNameIsTheDirectorys", "Bad_Name", makeHead("name: Bad_Name", "description: x"), "Bad_Name: x: []", 2},
		{"NoNameIsTheDirectorys", "a", makeHead("description: x"), "a: x: []", 1},
		{"EvilNameIsTheDirectorys", "a", makeHead("name: ../../x", "description: x"), "a: x: []", 2},
		{"ColonInAText", "a", makeHead("name: a", "description: Use when: asked"), "a: Use when: asked: []", 1},
		{"Anchors", "a", makeHead("name: &n a", "description: *n"), "a: a: []", 0},
		{"NoDescription", "a", makeHead("name: a"), "", 1},
		{"NoHead", "a", "# x", "", 1},
		{"NoYAML", "a", makeHead("\tname: a"), "", 1},
	} {
		t.Run(c.law, func(t *testing.T) {
			list, problems, err := skill.Load(fstest.MapFS{c.dir + "/SKILL.md": {Data: []byte(c.text)}})
			got := ""
			for _, s := range list {
				got += fmt.Sprintf("%s: %s: %s", s.Name, s.Description, s.AllowedTools)
			}
			if err != nil || got != c.want || len(problems) != c.problems {
				t.Errorf("%q, %v, %v; want %q, %d problems", got, problems, err, c.want, c.problems)
			}
		})
	}
}

func TestLoadNamesAreUnique(t *testing.T) {
	list, problems, err := skill.Load(fstest.MapFS{"a/SKILL.md": {Data: []byte(makeHead("name: x", "description: 1"))}, "x/SKILL.md": {Data: []byte(makeHead("name: x", "description: 2"))}})
	if err != nil || len(list) != 1 || list[0].Dir != "a" || len(problems) != 2 || !problems[1].Fatal {
		t.Errorf("%v, %v, %v", list, problems, err)
	}
	if list, problems, err := skill.Load(os.DirFS("/nope")); list != nil || problems != nil || err != nil {
		t.Errorf("a directory that is not there: %v, %v, %v", list, problems, err)
	}
}

// TestLinksLeadNowhere: targets of links outside of a skill are not read, placed or
// reported.
func TestLinksLeadNowhere(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "skills")
	secret := filepath.Join(top, "secret")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"secret":               "SECRET",
		"skills/a/SKILL.md":    makeHead("name: a", "description: x"),
		"skills/a/real/ok.txt": "fine",
		"skills/c/notes":       "",
		"outside/SKILL.md":     makeHead("name: outside", "description: SECRET"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755), os.WriteFile(filepath.Join(top, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link(secret, "a/absolute")
	link("../../secret", "a/relative")
	link("real/ok.txt", "a/inside")
	link("real", "a/directory")
	link("..", "a/up")
	link("loop", "a/loop")
	link(filepath.Join(top, "outside"), "b")
	link(secret, "c/SKILL.md")
	if err := syscall.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, problems, err := skill.Load(skill.DirFS(dir))
	if err != nil || len(list) != 1 || list[0].Name != "a" {
		t.Fatalf("%v, %v, %v", list, problems, err)
	}
	seen := map[string]string{}
	err = fs.WalkDir(list[0].Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(list[0].Files, name)
		seen[name] = string(b)
		if !e.Type().IsRegular() {
			t.Errorf("%s is %v", name, e.Type())
		}
		return err
	})
	if d := cmp.Diff(map[string]string{"SKILL.md": makeHead("name: a", "description: x"), "real/ok.txt": "fine", "inside": "fine"}, seen); d != "" || err != nil {
		t.Error(d, err)
	}
	told := map[string]bool{}
	for _, p := range problems {
		told[p.File] = true
		if p.Fatal || strings.Contains(p.Text, "SECRET") {
			t.Errorf("told: %v", p)
		}
	}
	for _, name := range []string{"absolute", "relative", "directory", "up", "loop", "pipe"} {
		if !told["a/"+name] {
			t.Errorf("nothing is told of a/%s: %v", name, problems)
		}
		if _, err := list[0].Read(name, 100); err == nil {
			t.Errorf("a/%s can be read", name)
		}
	}
	for _, name := range []string{"../c/notes", "/etc/passwd", "", "a//b", ".."} {
		if _, err := list[0].Read(name, 100); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBounds(t *testing.T) {
	main := &fstest.MapFile{Data: []byte(makeHead("name: a", "description: x"))}
	many := fstest.MapFS{"a/SKILL.md": main}
	for i := range 2001 {
		many[fmt.Sprintf("a/f%d", i)] = &fstest.MapFile{}
	}
	for law, fsys := range map[string]fstest.MapFS{
		"ManyFiles": many,
		"BigMain":   {"a/SKILL.md": {Data: []byte(makeHead("name: a", "description: x") + strings.Repeat("x", 1<<20))}},
		"BigHead":   {"a/SKILL.md": {Data: []byte(makeHead("name: a", "description: x", "license: "+strings.Repeat("x", 70_000)))}},
		"BigFiles":  {"a/SKILL.md": main, "a/b": {Data: make([]byte, 65<<20)}},
		"Deep":      {"a/SKILL.md": main, "a" + strings.Repeat("/d", 20): {}},
		"Bomb":      {"a/SKILL.md": {Data: []byte(yamlBomb())}},
		"DeepYAML":  {"a/SKILL.md": {Data: []byte(makeHead("name: a", "description: "+strings.Repeat("[", 20_000)))}},
	} {
		if list, problems, err := skill.Load(fsys); err != nil || len(list) != 0 || len(problems) == 0 {
			t.Errorf("%s: %d skills, %v, %v", law, len(list), problems, err)
		}
	}
}

// yamlBomb is a small head whose aliases stand for very much.
func yamlBomb() string {
	lines := []string{"name: a", "l0: &l0 [x, x, x, x, x, x, x, x, x, x]"}
	for i := 1; i < 12; i++ {
		lines = append(lines, fmt.Sprintf("l%d: &l%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 10), ", ")))
	}
	return makeHead(lines...)
}

func TestDisclosure(t *testing.T) {
	list, _, err := skill.Load(fstest.MapFS{
		"a/SKILL.md":   {Data: []byte("---\nname: a\ndescription: Does <b> & </skill>.\n---\nDo it.\n")},
		"a/ref.md":     {Data: []byte("more")},
		"a/image.png":  {Data: []byte("\x89PNG\x00")},
		"a/long.txt":   {Data: []byte(strings.Repeat("ä", 100))},
		"b/SKILL.md":   {Data: []byte(makeHead("name: b", "description: y"))},
		"b/scripts/no": {Data: []byte{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "<available_skills>\nCall skill.\n<skill>\n<name>a</name>\n<description>Does &lt;b&gt; &amp; &lt;/skill&gt;.</description>\n<location>/s/a/SKILL.md</location>\n</skill>\n<skill>\n<name>b</name>\n<description>y</description>\n<location>/s/b/SKILL.md</location>\n</skill>\n</available_skills>"
	if got := skill.FormatCatalogue(list, "Call skill.", func(s skill.Skill) string { return "/s/" + s.Dir + "/SKILL.md" }); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if got := skill.FormatCatalogue(nil, "x", nil); got != "" {
		t.Errorf("no skills: %q", got)
	}
	got, err := list[0].Activate("/s/a")
	want = "<skill name=\"a\">\nPaths are relative to /s/a\n\nDo it.\n\nIts files:\nimage.png (5 bytes)\nlong.txt (200 bytes)\nref.md (4 bytes)\n</skill>"
	if got != want || err != nil {
		t.Error(cmp.Diff(want, got), err)
	}
	if text, err := list[0].Read("ref.md", 100); text != "more" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := list[0].Read("long.txt", 9); text != "ääää\n[cut: the file is longer]" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := list[0].Read("image.png", 100); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a picture: %v", err)
	}
	if _, err := list[0].Read("nope", 100); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}

// FuzzSkill: whatever is valid is loaded as it is, and nothing makes a name that
// leads elsewhere.
func FuzzSkill(f *testing.F) {
	for _, seed := range []string{seedExample, makeHead("name: a", "description: x"), makeHead("name: a", "description: a: b"), yamlBomb(), "---\n---\n", "---\n- a\n---", makeHead("name: &n a", "description: *n", "metadata: {a: b}"), "\uFEFF---\r\nname: a\r\n---"} {
		f.Add("a", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, dir string, text []byte) {
		if dir == "" || dir == "." || dir == ".." || strings.ContainsAny(dir, "/\x00") {
			return
		}
		problems := skill.Validate(fstest.MapFS{"SKILL.md": {Data: text}}, dir)
		if !fs.ValidPath(dir) {
			return
		}
		list, _, err := skill.Load(fstest.MapFS{dir + "/SKILL.md": {Data: text}})
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) == 0 && len(list) != 1 && !strings.HasPrefix(dir, ".") {
			t.Errorf("it is valid and not loaded")
		}
		for _, s := range list {
			if s.Description == "" || s.Name == "" || s.Name == "." || s.Name == ".." || strings.ContainsAny(s.Name, "/\\\x00\n") {
				t.Errorf("loaded %q: %q", s.Name, s.Description)
			}
		}
	})
}
