package project

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxStats limits the files of a working tree whose permissions are read.
const maxStats = 500

// lockFiles choose the versions of dependencies: a change is easily overlooked, and runs code of others.
var lockFiles = []string{
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock", "go.sum", "go.work.sum",
	"cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "requirements.txt", "gemfile.lock", "composer.lock", "mix.lock", "pubspec.lock",
	"podfile.lock", "package.resolved", "gradle.lockfile", "flake.lock", "packages.lock.json",
}

// describe adds the changed files to l, sorted by path, with the reasons why they are risks.
func (r changeReader) describe(ctx context.Context, l *wire.Changes, changes []change) error {
	texts, err := r.readReviewTexts(ctx, changes)
	if err != nil {
		return err
	}
	stats := 0
	for _, c := range changes {
		f := wire.ChangedFile{Path: printableName(c.name), Status: "modified", OldMode: c.oldMode, Mode: c.mode, Inserted: c.inserted, Deleted: c.deleted}
		f.Unnamable = f.Path != c.name
		switch {
		case c.mode == "":
			f.Status, c.oldMode, c.mode = "untracked", "000000", "100644"
		case c.oldMode == "000000":
			f.Status, f.OldMode = "added", ""
		case c.mode == "000000":
			f.Status, f.Mode = "deleted", ""
		}
		if l.Tree != "" && f.Status != "deleted" && stats < maxStats {
			stats++
			if err := r.inspectTreeFile(ctx, &c, &f, texts); err != nil {
				return err
			}
		}
		f.Risks = append(f.Risks, explainRisks(c, texts)...)
		if slices.Contains(lockFiles, strings.ToLower(path.Base(c.name))) {
			f.Risks = append(f.Risks, "chooses versions of dependencies")
		}
		l.Files = append(l.Files, f)
	}
	slices.SortFunc(l.Files, func(a, b wire.ChangedFile) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

// printableName returns a path as JSON can have it: without invalid text.
func printableName(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// inspectTreeFile adds what only the file of the working tree shows: its permissions, and its content where
// git has no object of it.
func (r changeReader) inspectTreeFile(ctx context.Context, c *change, f *wire.ChangedFile, texts map[string]string) error {
	info, err := atoll.Stat(ctx, r.sb, path.Join(r.dir, c.name))
	if errors.Is(err, atoll.ErrNotFound) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	mode := info.Mode()
	if mode&fs.ModeSetuid != 0 {
		f.Risks = append(f.Risks, "runs with the rights of its owner: its set-user-id bit is set")
	}
	if mode&fs.ModeSetgid != 0 && mode.IsRegular() {
		f.Risks = append(f.Risks, "runs with the rights of its group: its set-group-id bit is set")
	}
	switch {
	case mode&fs.ModeSymlink != 0:
		c.mode = "120000"
	case !mode.IsRegular() && !mode.IsDir():
		f.Risks = append(f.Risks, "not a file: "+mode.Type().String())
	case mode&0o111 != 0 && mode.IsRegular():
		c.mode = "100755"
	}
	if f.Mode == "" {
		f.Mode = c.mode
	}
	if c.mode != "120000" && !isPackage(*c) {
		return nil
	}
	c.object = "tree:" + c.name // git has no object of it yet
	side, err := r.readTreeFile(ctx, c.name)
	if side.Exists && side.Omitted == "" {
		texts[c.object] = side.Text
	}
	return err
}

// readReviewTexts reads the committed symbolic links and versions of package.json, by object.
func (r changeReader) readReviewTexts(ctx context.Context, changes []change) (map[string]string, error) {
	texts := make(map[string]string)
	var ids []string
	for _, c := range changes {
		if c.mode != "120000" && !isPackage(c) {
			continue
		}
		for _, id := range []string{c.object, c.old} {
			if isObjectID(id) && strings.Trim(id, "0") != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	left := maxTextsBytes
	for _, id := range slices.Compact(ids) {
		text, size, err := r.readObject(ctx, id)
		if isGuestError(err) {
			continue // not a file, or the object is missing: explainRisks then assumes the worst
		}
		if err != nil {
			return nil, err
		}
		if left -= int(size); left < 0 {
			break
		}
		if size <= maxTextBytes {
			texts[id] = text
		}
	}
	return texts, nil
}

// readObject returns the content and the size of an object, without the content of one larger than
// maxTextBytes.
func (r changeReader) readObject(ctx context.Context, object string) (string, int64, error) {
	said, err := r.runLine(ctx, "cat-file", "-s", object)
	if err != nil {
		return "", 0, err
	}
	size, err := strconv.ParseInt(said, 10, 64)
	if err != nil || size < 0 {
		return "", 0, fmt.Errorf("git cat-file in the sandbox: %w: it printed %q instead of a size", ErrUnsafe, printable(said))
	}
	if size > maxTextBytes {
		return "", size, nil
	}
	text, err := r.runOutput(ctx, "cat-file", "blob", object)
	return text, size, err
}

// readBlob returns a file of a commit.
func (r changeReader) readBlob(ctx context.Context, commit, name string) (wire.FileSide, error) {
	at := commit + ":" + name
	if kind, err := r.runLine(ctx, "cat-file", "-t", at); isGuestError(err) {
		return wire.FileSide{}, nil
	} else if err != nil || kind != "blob" {
		return wire.FileSide{Exists: true, Omitted: "not a file"}, err
	}
	text, size, err := r.readObject(ctx, at)
	if err != nil {
		return wire.FileSide{}, err
	}
	return newFileSide([]byte(text), size), nil
}

// readTreeFile returns a file of the working tree.
func (r changeReader) readTreeFile(ctx context.Context, name string) (wire.FileSide, error) {
	full := path.Join(r.dir, name)
	info, err := atoll.Stat(ctx, r.sb, full)
	if errors.Is(err, atoll.ErrNotFound) {
		return wire.FileSide{}, nil
	}
	if err != nil {
		return wire.FileSide{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to := wire.LinkTarget(info)
		if to == "" {
			return wire.FileSide{Exists: true, Omitted: "not a file"}, nil
		}
		return newFileSide([]byte(to), int64(len(to))), nil
	}
	if !info.Mode().IsRegular() {
		return wire.FileSide{Exists: true, Omitted: "not a file"}, nil
	}
	if info.Size() > maxTextBytes {
		return newFileSide(nil, info.Size()), nil
	}
	rc, err := atoll.OpenFile(ctx, r.sb, full)
	if err != nil {
		return wire.FileSide{}, err
	}
	b, err := io.ReadAll(io.LimitReader(rc, maxTextBytes+1)) // it may grow meanwhile
	return newFileSide(b, int64(len(b))), errors.Join(err, rc.Close())
}

// newFileSide returns the content of a file of a size.
func newFileSide(b []byte, size int64) wire.FileSide {
	s := wire.FileSide{Exists: true, Size: size}
	switch {
	case size > maxTextBytes:
		s.Omitted = "too large"
	case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
		s.Omitted = "binary"
	default:
		s.Text = string(b)
	}
	return s
}
