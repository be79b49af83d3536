package inside

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

// furnish makes what every root file system has besides what it is made of.
func (s *Setup) furnish() error {
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

// personal makes what a root file system has of this machine alone. again: it has
// such files already, of no other.
func (s *Setup) personal(again bool) error {
	if err := s.settings(again); err != nil {
		return err
	}
	for path, content := range s.Files {
		if err := ensureDir(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := replace(path, string(content), 0o644); err != nil {
			return err
		}
	}
	own := s.Dirs
	if s.User.Home != "" {
		own = append([]string{s.User.Home}, own...)
	}
	for _, dir := range own {
		if err := ownDir(dir, s.User); err != nil {
			return err
		}
	}
	return nil
}

// ownDir makes a directory the user's; one that is there stays whose it is.
func ownDir(dir string, u User) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, u.UID, u.GID)
}

// resolvConf leads questions for names to the guest, as gate.ResolvConf does.
const resolvConf = "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"

// settings are files that say who this machine is and how names are found.
func (s *Setup) settings(again bool) error {
	hosts := "127.0.0.1 localhost " + s.Hostname + "\n::1 localhost ip6-localhost\n"
	list := [][2]string{{"hostname", s.Hostname + "\n"}, {"hosts", hosts}, {"machine-id", s.MachineID + "\n"}}
	if s.Network.NIC == "" {
		list = append(list, [2]string{"resolv.conf", resolvConf})
	}
	write := replace
	if again {
		write = overwrite
	}
	for _, f := range list {
		if err := write("/etc/"+f[0], f[1], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file of the root file system, which may hold anything in its
// place, such as a link to nowhere.
func replace(path, text string, mode os.FileMode) error {
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

// overwrite gives a file another text in its place, which is less work than replace
// and for a machine that nobody uses yet as good; what is no file is replaced.
func overwrite(path, text string, mode os.FileMode) error {
	old, err := readRegular(path)
	if err != nil {
		return replace(path, text, mode)
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

// mostText is how much is read of a file of the root file system.
const mostText = 4 << 20

// readRegular reads a file that must be one, and not a pipe that nobody writes to.
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
	if !info.Mode().IsRegular() || info.Size() > mostText {
		return "", fmt.Errorf("%s is no file of at most %d bytes", path, mostText)
	}
	b, err := io.ReadAll(io.LimitReader(f, mostText))
	return string(b), err
}

// addUser adds the user to the files that know users, and root, where they are
// not in them.
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

// addLines adds lines of fields to a file, except those whose number it has.
func addLines(path string, number int, lines [][]string) error {
	old, err := readRegular(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		if old, err = followed(path); err != nil {
			return err
		}
	}
	text := withLines(old, number, lines)
	if text == old {
		return nil
	}
	return replace(path, text, 0o644)
}

// followed reads a file that a link leads to, as images of some builders have
// them.
func followed(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return readRegular(real)
}

func withLines(text string, number int, lines [][]string) string {
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
