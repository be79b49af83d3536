package agent

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/atoll-sandbox/atoll"
)

// Limits of the files of skills.
const (
	maxSkillFiles = 2000
	maxSkillBytes = 64 << 20
)

// SkillFiles returns the files of skills as files beneath dir, each skill in a
// directory of its name.
func SkillFiles(skills []Skill, dir string) ([]File, error) {
	var files []File
	size := 0
	for _, s := range skills {
		if !fs.ValidPath(s.Name) || s.Name == "." || path.Base(s.Name) != s.Name {
			return nil, fmt.Errorf("skill %q: %w: its name must be a valid directory name", s.Name, atoll.ErrInvalid)
		}
		err := fs.WalkDir(s.Files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := fs.ReadFile(s.Files, name)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			size += len(data)
			if len(files) == maxSkillFiles || size > maxSkillBytes {
				return fmt.Errorf("%w: skills have at most %d files and %d MB", atoll.ErrInvalid, maxSkillFiles, maxSkillBytes>>20)
			}
			files = append(files, File{Path: path.Join(dir, s.Name, name), Data: data, Mode: uint32(info.Mode().Perm())&0o111 | 0o644})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("skill %s: %w", s.Name, err)
		}
	}
	return files, nil
}
