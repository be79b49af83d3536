package shell

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

const realDrivers = "a driver with real processes (namespace, docker, kubernetes, microvm)"

// hintForMissing returns what to use instead of a well-known command that a virtual sandbox can't
// have; "" for other names.
func hintForMissing(name string) string {
	switch name {
	case "python", "python2", "python3", "ipython", "pytest", "ruby", "irb", "php", "lua", "luajit", "tclsh", "R", "Rscript", "julia", "ghc", "erl", "elixir", "swift", "kotlin", "scala":
		return name + " is not part of a virtual sandbox: use awk, sed, jq, bc, sqlite3 or bash, or " + realDrivers
	case "perl":
		return name + " is not part of a virtual sandbox: use sed -E, awk, or grep -P, or " + realDrivers
	case "ex":
		return name + " is not part of a virtual sandbox: use ed -s, sed -i, patch or git apply"
	case "ag", "ack", "locate":
		return name + " is not part of a virtual sandbox: use rg, fd, or find"
	case "merge", "vimdiff":
		return name + " is not part of a virtual sandbox: use diff3 -m, sdiff, or git merge"
	case "node", "nodejs", "js":
		return name + " is part of sealed sandboxes only (--runtime sealed): use jq for JSON, awk or bash, or " + realDrivers
	case "deno", "bun", "ts-node", "tsx", "qjs":
		return name + " is not part of a virtual sandbox: sealed ones (--runtime sealed) have node; or use jq for JSON, awk, bash, or " + realDrivers
	case "hg", "svn", "gh":
		return name + " is not part of a virtual sandbox: use git for versions in the sandbox, or " + realDrivers
	case "npm", "npx", "yarn", "pnpm", "pip", "pip3", "pipx", "uv", "poetry", "conda", "gem", "composer", "go", "cargo", "rustc", "java", "javac", "mvn", "gradle",
		"gcc", "cc", "g++", "c++", "clang", "clang++", "ld", "ar", "nm", "objdump", "gdb", "strace", "ltrace", "perf", "valgrind", "cmake", "ninja", "meson", "bazel", "tsc", "eslint", "prettier", "jest", "vite", "webpack", "black", "ruff", "flake8", "mypy", "pylint", "gofmt", "golangci-lint", "rustup", "rustfmt", "bundle", "mix", "corepack", "nvm", "pyenv", "virtualenv", "pipenv", "ant", "dotnet":
		return name + " is not part of a virtual sandbox; use " + realDrivers
	case "just", "task", "rake":
		return name + " is not part of a virtual sandbox: use make, or run the commands of the task with bash"
	case "ffmpeg", "convert", "magick", "identify", "pandoc", "pdftotext", "soffice", "latex", "pdflatex", "dot", "gnuplot", "tesseract", "exiftool":
		return name + " is not part of a virtual sandbox; use " + realDrivers
	case "gpg", "age", "pass":
		return name + " is not part of a virtual sandbox, which holds no keys; sha256sum checks downloads"
	case "aws", "gcloud", "az", "terraform", "ansible", "vercel", "heroku", "flyctl", "ssh-keygen", "ssh-add":
		return name + " is not part of a virtual sandbox; use " + realDrivers
	case "apt", "apt-get", "yum", "dnf", "apk", "brew", "dpkg", "rpm", "pacman", "snap":
		return "packages can't be installed in a virtual sandbox; use " + realDrivers
	case "sudo", "su", "doas", "pkexec":
		return "this sandbox has only the user root: run the command without " + name
	case "curl", "wget":
		return "this sandbox has no network; hosts are allowed when it is created (--allow HOST)"
	case "ssh", "scp", "sftp", "nc", "ncat", "netcat", "telnet", "ftp", "ping", "dig", "host", "nslookup", "rsync", "traceroute", "nmap", "socat", "whois", "http", "lynx", "w3m", "aria2c":
		return "a virtual sandbox supports no network connections except those of curl and wget, if they are allowed"
	case "ip", "ifconfig", "netstat", "ss", "lsof":
		return "a virtual sandbox has no network interfaces and opens no ports; `ps' lists its processes"
	case "vi", "vim", "nvim", "nano", "emacs", "pico", "top", "htop", "tmux", "screen":
		return "full-screen programs are not available: edit with sed or a here-document (cat > FILE <<'END'), read with cat or head, list processes with ps"
	case "systemctl", "service", "journalctl", "dmesg", "free", "lscpu", "lsblk", "docker", "podman", "docker-compose", "kubectl", "helm", "mount", "umount", "modprobe", "insmod", "fdisk", "mkfs", "iptables", "crontab":
		return name + " needs a real system; use a driver such as microvm"
	case "sqlite3", "sqlite", "psql", "pg_dump", "mysql", "mysqldump", "mongo", "redis-cli", "mongosh", "duckdb":
		return name + " is not part of a virtual sandbox: use awk, join, sort or jq on text files, or " + realDrivers
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
