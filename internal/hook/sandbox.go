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

// maxEntries is how many names of a directory a script is told.
const maxEntries = 20_000

// at returns a path of the sandbox: what is not absolute is beneath the
// scope's directory.
func (r *run) at(a operands, i int) (string, error) {
	name, err := a.text(i)
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

func (r *run) read(a operands) ([]byte, error) {
	name, err := r.at(a, 0)
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

func (r *run) readText(a operands) (any, error) {
	data, err := r.read(a)
	return string(data), err
}

// readBytes gives each byte as a character of that number.
func (r *run) readBytes(a operands) (any, error) {
	data, err := r.read(a)
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

func (r *run) writeFile(a operands) (any, error) {
	name, err := r.at(a, 0)
	if err != nil {
		return nil, err
	}
	text, err := a.text(1)
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

// fileInfo is what a script is told of a file.
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

func (r *run) listDir(a operands) (any, error) {
	name, err := r.at(a, 0)
	if err != nil {
		return nil, err
	}
	all, err := atoll.ReadDir(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	if len(all) > maxEntries {
		return nil, fmt.Errorf("%w: %s: %d names are more than a hook is told: %d", atoll.ErrQuota, name, len(all), maxEntries)
	}
	list := make([]fileInfo, len(all))
	for i, info := range all {
		list[i] = infoOf(info)
	}
	return encoded(list)
}

func (r *run) stat(a operands) (any, error) {
	name, err := r.at(a, 0)
	if err != nil {
		return nil, err
	}
	info, err := atoll.Stat(r.ctx, r.scope.Sandbox, name)
	if err != nil {
		return nil, err
	}
	return encoded(infoOf(info))
}

func (r *run) exists(a operands) (any, error) {
	_, err := r.stat(a)
	if errors.Is(err, atoll.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (r *run) mkdir(a operands) (any, error) {
	name, err := r.at(a, 0)
	if err != nil {
		return nil, err
	}
	return nil, atoll.Mkdir(r.ctx, r.scope.Sandbox, name, 0o755)
}

// remove removes a file or an empty directory.
func (r *run) remove(a operands) (any, error) {
	name, err := r.at(a, 0)
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

// removeAll removes a name and all below it; one that is not there is fine.
func (r *run) removeAll(a operands) (any, error) {
	name, err := r.at(a, 0)
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

func (r *run) rename(a operands) (any, error) { return nil, r.transfer(a, "mv", "-f") }

func (r *run) copy(a operands) (any, error) { return nil, r.transfer(a, "cp", "-R", "-p") }

// transfer runs mv or cp on two names, of which the second is the new name,
// never a directory to put the first into.
func (r *run) transfer(a operands, program ...string) error {
	from, err := r.at(a, 0)
	if err != nil {
		return err
	}
	to, err := r.at(a, 1)
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
