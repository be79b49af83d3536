package shell

import (
	"strconv"
	"strings"
)

// expandTilde returns the expansion of a tilde prefix.
func (in *interp) expandTilde(user string) string {
	switch {
	case user == "":
		if s, ok := in.get("HOME"); ok {
			return s
		}
		return in.homeOf("root", "~")
	case user == "+":
		if s, ok := in.get("PWD"); ok {
			return s
		}
		return "~+"
	case user == "-":
		if s, ok := in.get("OLDPWD"); ok {
			return s
		}
		return "~-"
	}
	if n, err := strconv.Atoi(user); err == nil {
		return in.stackDir(user, n)
	}
	return in.homeOf(user, "~"+user)
}

// stackDir returns an entry of the directory stack for ~2, ~+2 or ~-2.
func (in *interp) stackDir(user string, n int) string {
	if user[0] == '-' {
		n += len(in.dirs)
	}
	switch {
	case n == 0:
		return in.p.Dir()
	case n > 0 && n <= len(in.dirs):
		return in.dirs[n-1]
	}
	return "~" + user
}

// homeOf returns the home directory of a user in /etc/passwd, or otherwise.
func (in *interp) homeOf(user, otherwise string) string {
	b, err := in.p.ReadFile("/etc/passwd")
	if err != nil {
		return otherwise
	}
	defer in.p.Free(int64(cap(b)))
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Split(line, ":"); len(f) > 5 && f[0] == user {
			return f[5]
		}
	}
	return otherwise
}
