package shell

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// hintForMissing returns an alternative for a command that a virtual sandbox
// can't have; "" for other names.
func hintForMissing(name string) string {
	switch name {
	case "python", "python3", "node", "npm", "npx", "pip", "pip3", "ruby", "perl", "php", "go", "cargo", "rustc", "java",
		"gcc", "cc", "g++", "clang", "make", "deno", "bun":
		return name + " is not part of a virtual sandbox; use a driver with real processes (namespace, docker, kubernetes, microvm)"
	case "apt", "apt-get", "yum", "dnf", "apk", "brew", "dpkg", "rpm", "pacman", "snap":
		return "packages can't be installed in a virtual sandbox; use a driver with real processes (namespace, docker, kubernetes, microvm)"
	case "sudo", "su", "doas":
		return "this sandbox has only the user root: run the command without " + name
	case "curl", "wget":
		return "this sandbox has no network"
	case "ssh", "scp", "sftp", "nc", "ncat", "telnet", "ping", "dig", "nslookup", "rsync":
		return "a virtual sandbox supports no network connections except those of curl, if they are allowed"
	case "vi", "vim", "nano", "emacs", "less", "more", "man", "top", "htop":
		return "full-screen programs are not available: use cat, sed, head or `help'"
	case "systemctl", "service", "docker", "podman", "kubectl", "mount", "umount", "modprobe", "insmod", "fdisk", "mkfs", "iptables":
		return name + " needs a real system; use a driver such as microvm"
	}
	return ""
}

// Hint returns a one-line hint for a command that does not exist: a command
// with a similar name, or an alternative. It returns "" for a name too short or
// too long to compare.
func Hint(p *kernel.Proc, name string) string {
	if text := hintForMissing(name); text != "" {
		return text
	}
	best, score := "", len(name)/3+1
	try := func(known string) {
		if d := editDistance(name, known, score); d < score || d == score && best == "" {
			best, score = known, d
		}
	}
	if len(name) < 2 || len(name) > 32 {
		return ""
	}
	for known := range p.Kernel().Programs() {
		if _, err := p.LookPath(known); err == nil {
			try(known)
		}
	}
	for _, known := range builtinNames() {
		try(known)
	}
	if best == "" {
		return "`help' lists the available commands"
	}
	return "did you mean `" + best + "'?"
}

// editDistance returns the number of edits between two words (a letter
// inserted, removed or changed, two letters swapped), at most limit+1.
func editDistance(a, b string, limit int) int {
	if a == b {
		return 0
	}
	if len(a)-len(b) > limit || len(b)-len(a) > limit || len(b) > 64 {
		return limit + 1
	}
	before := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	if prev[len(b)] > limit || strings.EqualFold(a, b) && prev[len(b)] > limit {
		return limit + 1
	}
	return prev[len(b)]
}
