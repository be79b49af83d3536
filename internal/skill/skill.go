// Package skill reads Agent Skills: directories with a SKILL.md.
package skill

import (
	"fmt"
	"io/fs"
	"strings"
)

// Skill is one as its SKILL.md describes it.
type Skill struct {
	Name          string
	Description   string
	License       string
	Compatibility string
	Metadata      map[string]string
	AllowedTools  []string
	Body          string // what follows the head of SKILL.md
	Dir           string // that it is in, in the FS that it was loaded from

	// Files are those of the directory: files and directories only, each of
	// them in it, however links lead there.
	Files fs.FS
}

// Problem is a fault of a SKILL.md, or of what lies beside it.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // 0: of the file
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

// What a skill may have. The first three are the format's.
const (
	maxName          = 64   // characters
	maxDescription   = 1024 // characters
	maxCompatibility = 500  // characters

	maxHead   = 64 << 10 // bytes
	maxMain   = 1 << 20  // bytes of SKILL.md
	maxFiles  = 2000     // with directories
	maxSize   = 64 << 20 // bytes of all files
	maxSkills = 1000     // of a directory of skills
	maxDeep   = 16       // directories
)
