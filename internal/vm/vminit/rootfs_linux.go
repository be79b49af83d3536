package vminit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// makeStandardDirs makes the directories and links that every root file system needs, and adds the
// user.
func (s *Setup) makeStandardDirs() error {
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{
		{"/etc", 0o755},
		{"/home", 0o755},
		{"/mnt", 0o755},
		{"/root", 0o700},
		{"/run/lock", 0o777 | os.ModeSticky},
		{"/var/log", 0o755},
		{"/tmp", 0o777 | os.ModeSticky},
		{"/var/tmp", 0o777 | os.ModeSticky},
	} {
		if err := ensureDir(d.path, d.mode); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if s.User.Name != "" {
		return addUser(s.User)
	}
	return nil
}

// writeOwnFiles writes the files that are specific to this VM. again: the file system has such
// files of a form.
func (s *Setup) writeOwnFiles(again bool) error {
	if err := s.writeSettings(again); err != nil {
		return err
	}
	for path, content := range s.Files {
		if err := ensureDir(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := replaceFile(path, string(content), 0o644); err != nil {
			return err
		}
	}
	own := s.Dirs
	if s.User.Home != "" {
		own = append([]string{s.User.Home}, own...)
	}
	for _, dir := range own {
		if err := makeUserDir(dir, s.User); err != nil {
			return err
		}
	}
	return nil
}

// makeUserDir makes a directory that belongs to the user, unless it exists.
func makeUserDir(dir string, u User) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, u.UID, u.GID)
}

// resolvConf sends DNS queries to the guest agent; it is the same as that of the egress proxy.
const resolvConf = "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"

// writeSettings writes the files with the VM's names and name servers.
func (s *Setup) writeSettings(again bool) error {
	hosts := "127.0.0.1 localhost " + s.Hostname + "\n::1 localhost ip6-localhost\n"
	list := [][2]string{{"hostname", s.Hostname + "\n"}, {"hosts", hosts}, {"machine-id", s.MachineID + "\n"}}
	if s.Network.NIC == "" {
		list = append(list, [2]string{"resolv.conf", resolvConf})
	}
	write := replaceFile
	if again {
		write = overwriteFile
	}
	for _, f := range list {
		if err := write("/etc/"+f[0], f[1], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile replaces a file of the root file system, whatever it was before, such as a broken
// link.
func replaceFile(path, text string, mode os.FileMode) error {
	if old, err := readRegular(path); err == nil && old == text {
		return nil
	}
	early := path + ".atoll-new"
	if err := os.RemoveAll(early); err != nil {
		return err
	}
	f, err := os.OpenFile(early, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(early, path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.RemoveAll(early)))
	}
	return nil
}

// overwriteFile writes a new text into an existing regular file; anything else is replaced. It is
// less work than replaceFile, and safe enough in a VM that is not in use yet.
func overwriteFile(path, text string, mode os.FileMode) error {
	old, err := readRegular(path)
	if err != nil {
		return replaceFile(path, text, mode)
	}
	if old == text {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil && len(text) < len(old) {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}

// maxText is the size limit of a file that is read, in bytes.
const maxText = 4 << 20

// readRegular reads a regular file. It never blocks on a pipe, and follows no link.
func readRegular(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxText {
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxText)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	return string(b), err
}

// addUser adds the user and root to /etc/passwd and /etc/group, if they are missing.
func addUser(u User) error {
	shell := "/bin/sh"
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		shell = "/bin/bash"
	}
	return errors.Join(
		addLines("/etc/passwd", 2, [][]string{
			{"root", "x", "0", "0", "root", "/root", shell},
			{u.Name, "x", strconv.Itoa(u.UID), strconv.Itoa(u.GID), "", u.Home, shell},
		}),
		addLines("/etc/group", 2, [][]string{{"root", "x", "0", ""}, {u.Name, "x", strconv.Itoa(u.GID), ""}}),
	)
}

// addLines adds lines of fields to a file, except those with a number that the file has.
func addLines(path string, number int, lines [][]string) error {
	old, err := readRegular(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		if old, err = readFollowed(path); err != nil {
			return err
		}
	}
	text := appendMissing(old, number, lines)
	if text == old {
		return nil
	}
	return replaceFile(path, text, 0o644)
}

// readFollowed reads the file that a link leads to; some image builders make links there.
func readFollowed(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return readRegular(real)
}

func appendMissing(text string, number int, lines [][]string) string {
	for _, l := range lines {
		found := false
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSpace(line), ":")
			found = found || len(f) > number && f[number] == l[number]
		}
		if found {
			continue
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += strings.Join(l, ":") + "\n"
	}
	return text
}
