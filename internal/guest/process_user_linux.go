package guest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// userInfo is the user that a command runs as.
type userInfo struct {
	uid, gid int
	groups   []uint32 // besides gid
	name     string   // may be empty
	home     string
	shell    string
}

// The files with users and groups. They belong to the sandbox, so their content is trusted only
// for the sandbox itself.
const (
	passwdFile  = "/etc/passwd"
	groupFile   = "/etc/group"
	maxUserFile = 1 << 20 // bytes read of each
)

// lookupUser looks up a user: "name" or "1000", either with ":group". Empty is the sandbox's
// default user.
func (s *Server) lookupUser(user string) (userInfo, error) {
	name, group, _ := strings.Cut(user, ":")
	own := userInfo{uid: s.Config.UID, gid: s.Config.GID}
	if !s.Config.CanSwitchUser {
		own.uid, own.gid = os.Geteuid(), os.Getegid()
	}
	a := own
	id, err := strconv.ParseUint(name, 10, 31)
	byName := err != nil
	if name == "" {
		id, byName = uint64(own.uid), false
	}
	found := eachLine(passwdFile, func(f []string) bool {
		if len(f) < 7 {
			return false
		}
		uid, err := strconv.ParseUint(f[2], 10, 31)
		if err != nil || byName && f[0] != name || !byName && uid != id {
			return false
		}
		gid, err := strconv.ParseUint(f[3], 10, 31)
		if err != nil {
			return false
		}
		a = userInfo{uid: int(uid), gid: int(gid), name: f[0], home: f[5], shell: f[6]}
		return true
	})
	switch {
	case name == "":
		a.uid, a.gid = own.uid, own.gid // whatever passwdFile contains
		if s.Config.Home != "" {
			a.home = s.Config.Home
		}
	case !found && byName:
		return userInfo{}, fmt.Errorf("%w: user %q is not in the sandbox's %s", atoll.ErrInvalid, name, passwdFile)
	case !found:
		a = userInfo{uid: int(id), gid: own.gid}
	}
	if group != "" {
		if a.gid, err = lookupGroup(group); err != nil {
			return userInfo{}, err
		}
	}
	if !s.Config.CanSwitchUser {
		if a.uid != own.uid || group != "" && a.gid != own.gid {
			return userInfo{}, fmt.Errorf("%w: this sandbox has one user only, %d, and can't run commands as %q", atoll.ErrUnsupported, own.uid, user)
		}
		a.gid = own.gid
		return a, nil
	}
	a.groups = listGroups(a)
	return a, nil
}

func lookupGroup(group string) (int, error) {
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	gid := -1
	eachLine(groupFile, func(f []string) bool {
		if len(f) < 3 || f[0] != group {
			return false
		}
		id, err := strconv.ParseUint(f[2], 10, 31)
		if err == nil {
			gid = int(id)
		}
		return err == nil
	})
	if gid < 0 {
		return 0, fmt.Errorf("%w: group %q is not in the sandbox's %s", atoll.ErrInvalid, group, groupFile)
	}
	return gid, nil
}

// maxGroups is the largest number of supplementary groups of a user.
const maxGroups = 64

func listGroups(a userInfo) []uint32 {
	var list []uint32
	if a.name == "" {
		return nil
	}
	eachLine(groupFile, func(f []string) bool {
		if len(f) < 4 {
			return false
		}
		for _, member := range strings.Split(f[3], ",") {
			if member == a.name {
				if id, err := strconv.ParseUint(f[2], 10, 31); err == nil && int(id) != a.gid {
					list = append(list, uint32(id))
				}
			}
		}
		return len(list) >= maxGroups
	})
	return list
}

// eachLine calls f with the fields of each line of a file until f returns true. An unreadable
// file has no lines.
func eachLine(path string, f func(fields []string) bool) (found bool) {
	b, err := readSmall(path)
	if err != nil {
		return false
	}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		if f(strings.Split(sc.Text(), ":")) {
			return true
		}
	}
	return false
}

// readSmall reads the beginning of a regular file. Programs inside may have replaced the file by
// anything, such as a pipe without a writer.
func readSmall(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.ErrUnsupported
	}
	return io.ReadAll(io.LimitReader(file, maxUserFile))
}
