// Package skill reads Agent Skills: directories with a SKILL.md file.
package skill

import (
	"fmt"
	"io/fs"
	"strings"
)

// Skill is a skill as its SKILL.md describes it.
type Skill struct {
	Name          string
	Description   string
	License       string
	Compatibility string
	Metadata      map[string]string
	AllowedTools  []string
	Body          string // the text of SKILL.md after the YAML head
	Dir           string // its directory in the FS that it was loaded from

	// Files are the files and directories of the skill. Links appear only if
	// they lead to a file inside it.
	Files fs.FS
}

// Problem is a fault in a SKILL.md, or in the files beside it.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // 0: the whole file
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`            // what is wrong, and what would be right
	Fatal bool   `json:"fatal,omitempty"` // the skill can't be used
}

// String returns "file:line: field: text".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Limits of a skill. The first three are those of the format.
const (
	maxName          = 64   // characters
	maxDescription   = 1024 // characters
	maxCompatibility = 500  // characters

	maxHead   = 64 << 10 // bytes
	maxMain   = 1 << 20  // bytes of SKILL.md
	maxFiles  = 2000     // including directories
	maxSize   = 64 << 20 // bytes of all files
	maxSkills = 1000     // in a directory of skills
	maxDepth  = 16       // directories
)
