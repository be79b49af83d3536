package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// shownPatterns returns patterns of the files of the host's /etc that a sandbox sees: settings that
// programs need and that are not secret. It sees nothing else of it.
func shownPatterns() []string {
	return []string{
		"alternatives", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates*", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "crypto-policies",
		"ld.so.*", "ld-musl-*.path", "localtime", "timezone", "mime.types", "magic*", "services", "protocols", "networks", "ethertypes", "netconfig", "rpc", "gai.conf", "host.conf",
		"terminfo", "fonts", "inputrc", "groff", "vim", "sgml", "xml", "shells", "skel", "profile", "bash.bashrc", "bashrc", "locale*", "login.defs",
		"python3*", "perl", "java*", "maven/m2.conf", "maven/logging", "ImageMagick-*",
		"os-release", "debian_version", "lsb-release", "redhat-release", "system-release", "alpine-release",
	}
}

// shownSettings returns the names in the host's /etc that are shown, links among them. Files that
// only their owner can read are left out.
func shownSettings() (names []string, err error) {
	for _, pattern := range shownPatterns() {
		found, err := filepath.Glob("/etc/" + pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			info, err := os.Lstat(name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			open := info.Mode().IsDir() && info.Mode().Perm()&0o005 == 0o005 || info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
			if open || info.Mode()&os.ModeSymlink != 0 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// settingsDirs returns the directories of the host's /etc in which shownPatterns looks.
func settingsDirs() []string {
	dirs := []string{"/etc"}
	for _, pattern := range shownPatterns() {
		for dir := filepath.Dir("/etc/" + pattern); dir != "/etc"; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// addEtc plans an /etc with the host's settings. Links remain links, and are resolved inside.
func (p *plan) addEtc(names []string) error {
	p.addStep(jail.Step{Action: jail.Tmpfs, Path: "etc", Mode: 0o755, Size: 1 << 20})
	for _, name := range names {
		to, err := os.Readlink(name)
		if err == nil {
			p.addStep(jail.Step{Action: jail.MakeLink, Path: name[1:], Text: to})
			continue
		}
		s := jail.Step{Action: jail.BindTree, Path: name[1:], ReadOnly: true}
		if s.Source, err = p.openSource(name, unix.O_NOFOLLOW, s); err != nil {
			return err
		}
		p.addStep(s)
	}
	return nil
}

// addEtc adds the host's settings for gVisor.
func (b *bundle) addEtc(private *os.Root) error {
	names, err := shownSettings()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := b.mkdirAll(private, filepath.Dir(name[1:])); err != nil {
			return err
		}
		to, err := os.Readlink(name)
		if err != nil {
			b.addBind(name, name, true)
			continue
		}
		if err := private.Symlink(to, name[1:]); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// mkdirAll creates a directory and its parents, in which gVisor, as the sandbox's root, can create
// mount points.
func (b *bundle) mkdirAll(private *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := b.mkdirAll(private, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := private.Mkdir(dir, 0o755); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return private.Chown(dir, b.base, b.base)
}
