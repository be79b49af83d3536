package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// maxEntries limits the entries of a directory that a script can list.
const maxEntries = 20_000

// sandboxPath returns argument i as an absolute path of the sandbox; a relative one
// is beneath the scope's directory.
func (r *execution) sandboxPath(a arguments, i int) (string, error) {
	name, err := a.stringAt(i)
	if err != nil {
		return "", err
	}
	if r.scope.Sandbox == nil {
		return "", fmt.Errorf("%w: there is no sandbox", atoll.ErrState)
	}
	if name == "" {
		return "", fmt.Errorf("%w: an empty path", atoll.ErrInvalid)
	}
	if !strings.HasPrefix(name, "/") {
		name = path.Join(r.scope.Dir, name)
	}
	return path.Clean(name), nil
}

func (r *execution) readLimited(a arguments) ([]byte, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	f, err := atoll.OpenFile(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	cerr := f.Close()
	if len(data) > maxRead {
		return nil, fmt.Errorf("%w: %s: a hook reads files of at most %d bytes", atoll.ErrQuota, name, maxRead)
	}
	return data, errors.Join(err, cerr)
}

func (r *execution) readText(a arguments) (any, error) {
	data, err := r.readLimited(a)
	return string(data), err
}

// readBytes returns each byte as a character of that number.
func (r *execution) readBytes(a arguments) (any, error) {
	data, err := r.readLimited(a)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.Grow(len(data))
	for _, c := range data {
		b.WriteRune(rune(c))
	}
	return b.String(), nil
}

func (r *execution) writeFile(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	text, err := a.stringAt(1)
	if err != nil {
		return nil, err
	}
	data := []byte(text)
	if len(a) > 2 && a[2] == true {
		data = data[:0]
		for _, c := range text {
			data = append(data, byte(c))
		}
	}
	perm := fs.FileMode(0o644)
	if info, err := atoll.Stat(r.ctx, r.scope.Sandbox, name); err == nil && info.Mode().IsRegular() {
		perm = info.Mode().Perm()
	}
	return nil, atoll.WriteFile(r.ctx, r.scope.Sandbox, name, data, perm)
}

// fileInfo is the description of a file for a script.
type fileInfo struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	IsDir   bool   `json:"is_dir"`
	ModTime string `json:"mod_time"`
	Mode    string `json:"mode"`
}

func infoOf(i fs.FileInfo) fileInfo {
	return fileInfo{i.Name(), i.Size(), i.IsDir(), i.ModTime().UTC().Format(time.RFC3339), i.Mode().String()}
}

func (r *execution) listDir(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	all, err := atoll.ReadDir(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	if len(all) > maxEntries {
		return nil, fmt.Errorf("%w: %s: it has %d entries: the limit for hooks is %d", atoll.ErrQuota, name, len(all), maxEntries)
	}
	list := make([]fileInfo, len(all))
	for i, info := range all {
		list[i] = infoOf(info)
	}
	return encodeJSON(list)
}

func (r *execution) stat(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	info, err := atoll.Stat(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	return encodeJSON(infoOf(info))
}

func (r *execution) fileExists(a arguments) (any, error) {
	_, err := r.stat(a)
	if errors.Is(err, atoll.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (r *execution) makeDirectory(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	return nil, atoll.Mkdir(r.ctx, r.scope.Sandbox, name, 0o755)
}

// removeFile removes a file or an empty directory.
func (r *execution) removeFile(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	info, err := atoll.Stat(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		list, err := atoll.ReadDir(r.ctx, r.scope.Sandbox, name)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			return nil, fmt.Errorf("%w: %s is not empty: RemoveAll removes what is in it too", atoll.ErrState, name)
		}
	}
	return nil, atoll.Remove(r.ctx, r.scope.Sandbox, name)
}

// removeAll removes a file or a directory with its content; a missing one is no error.
func (r *execution) removeAll(a arguments) (any, error) {
	name, err := r.sandboxPath(a, 0)
	if err != nil {
		return nil, err
	}
	if name == "/" || name == path.Clean(r.scope.Dir) {
		return nil, fmt.Errorf("%w: RemoveAll of %s itself", atoll.ErrDenied, name)
	}
	if err := atoll.Remove(r.ctx, r.scope.Sandbox, name); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return nil, err
	}
	return nil, nil
}

func (r *execution) renameFile(a arguments) (any, error) { return nil, r.moveOrCopy(a, "mv", "-f") }

func (r *execution) copy(a arguments) (any, error) { return nil, r.moveOrCopy(a, "cp", "-R", "-p") }

// moveOrCopy runs mv or cp. The second path is always the new name, never a
// directory to move or copy into.
func (r *execution) moveOrCopy(a arguments, program ...string) error {
	from, err := r.sandboxPath(a, 0)
	if err != nil {
		return err
	}
	to, err := r.sandboxPath(a, 1)
	if err != nil {
		return err
	}
	if _, err := atoll.Stat(r.ctx, r.scope.Sandbox, from); err != nil {
		return err
	}
	if info, err := atoll.Stat(r.ctx, r.scope.Sandbox, to); err == nil && info.IsDir() {
		return fmt.Errorf("%w: %s is a directory", atoll.ErrExists, to)
	}
	if err := atoll.Mkdir(r.ctx, r.scope.Sandbox, path.Dir(to), 0o755); err != nil {
		return err
	}
	exit, err := r.scope.Sandbox.Exec(r.ctx, atoll.Cmd{Args: append(program, "--", from, to), MaxOutput: maxLogLine})
	if err == nil && !exit.Success() {
		err = fmt.Errorf("%s: exit status %d: %s", program[0], exit.Code, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
