package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// FormatCatalogue returns the list of skills for a model: their names and descriptions.
// how explains how to read a skill; where, which may be nil, returns the location
// of one. Without skills the result is empty.
func FormatCatalogue(list []Skill, how string, where func(Skill) string) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<available_skills>\n%s\n", how)
	for _, s := range list {
		fmt.Fprintf(&b, "<skill>\n<name>%s</name>\n<description>%s</description>\n", escapeXML(s.Name), escapeXML(s.Description))
		if where != nil {
			fmt.Fprintf(&b, "<location>%s</location>\n", escapeXML(where(s)))
		}
		b.WriteString("</skill>\n")
	}
	b.WriteString("</available_skills>")
	return b.String()
}

// escapeXML escapes a text for an element of the catalogue.
func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// Activate returns the text for a model that uses the skill: its body and the list
// of its files. dir is the directory of its files; empty: they can only be read
// through a tool.
func (s Skill) Activate(dir string) (string, error) {
	resources, err := s.Resources()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<skill name=%q>\n", s.Name)
	if dir != "" {
		fmt.Fprintf(&b, "Paths are relative to %s\n\n", dir)
	}
	b.WriteString(s.Body + "\n")
	if len(resources) > 0 {
		b.WriteString("\nIts files:\n")
		for i, r := range resources {
			if i == 100 {
				fmt.Fprintf(&b, "and %d more\n", len(resources)-i)
				break
			}
			fmt.Fprintf(&b, "%s (%d bytes)\n", escapeXML(r.Path), r.Size)
		}
	}
	b.WriteString("</skill>")
	return b.String(), nil
}

// Resource is a file of a skill.
type Resource struct {
	Path string
	Size int64
}

// Resources lists the files beside SKILL.md.
func (s Skill) Resources() ([]Resource, error) {
	if s.Files == nil {
		return nil, nil
	}
	var list []Resource
	err := fs.WalkDir(s.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == mainFileNames[0] || name == mainFileNames[1] {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		list = append(list, Resource{name, info.Size()})
		if len(list) > maxFiles {
			return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, maxFiles)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("skill %s: %w", s.Name, err)
	}
	return list, nil
}

// Read returns a text file of the skill for a model, cut after limit bytes.
func (s Skill) Read(name string, limit int64) (text string, err error) {
	if s.Files == nil || !fs.ValidPath(name) {
		return "", fmt.Errorf("%w: skill %s: file %q", atoll.ErrInvalid, s.Name, name)
	}
	f, err := s.Files.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = atoll.ErrNotFound
		}
		return "", fmt.Errorf("skill %s: file %q: %w", s.Name, name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", fmt.Errorf("skill %s: file %q: %w", s.Name, name, err)
	}
	if bytes.IndexByte(b, 0) >= 0 || int64(len(b)) <= limit && !utf8.Valid(b) {
		return "", fmt.Errorf("%w: skill %s: file %q is no text", atoll.ErrInvalid, s.Name, name)
	}
	if int64(len(b)) > limit {
		return strings.ToValidUTF8(string(b[:limit]), "") + "\n[cut: the file is longer]", nil
	}
	return string(b), nil
}
