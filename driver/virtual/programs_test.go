package virtual_test

import (
	"context"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell/command/sqlite"
)

// expectedPrograms are names that agents call.
const expectedPrograms = `awk base64 basename bash bc bzip2 bunzip2 bzcat cat chmod chown cksum clear cmp column comm cp cpio csplit curl cut date dc dd df diff dirname dos2unix du echo egrep env envsubst expand
expr factor false fgrep file find flock fmt fold gawk getconf getopt git grep groups gunzip gzip head hexdump hostname iconv id install join jq kill less ln locale ls man md5sum mkdir mkfifo mktemp more mv nice nl
nohup nproc numfmt od paste patch pathchk pgrep pkill pr printenv printf ps pwd readlink realpath rev rg rm rmdir sed seq sh sha1sum sha224sum sha256sum sha384sum sha512sum shuf sleep sort split sqlite3 stat stdbuf
strings stty sum sync tac tail tar tee test time timeout touch tput tr tree true truncate tsort tty uname unexpand uniq unix2dos unlink unxz unzip unzstd uptime uuidgen wc wget which whoami xargs xxd xz xzcat yes
zcat zdiff zgrep zip zless zmore zstd zstdcat b2sum base32 basenc cal ed fd diff3 sdiff parallel openssl yq make perl python python3 python2 pip pip3 pytest ruby php lua node nodejs npm npx yarn pnpm deno bun tsc
go cargo rustc java javac mvn gradle gcc g++ clang cc cmake ninja apt apt-get yum dnf apk brew dpkg sudo su ssh scp rsync nc telnet ping dig host ip ifconfig netstat ss lsof vi vim nano emacs top htop tmux screen
systemctl service docker podman kubectl helm mount psql mysql redis-cli duckdb gh hg svn ag ack gdb strace ffmpeg convert pandoc gpg aws terraform uv poetry conda eslint prettier jest black ruff mypy gofmt`

// missingLimit is how many of the expected programs may be missing, each with a hint.
const missingLimit = 96

// TestExpectedPrograms checks that each name which agents call is a program of a sandbox, or that its error names what to
// use instead, also under bash -c.
func TestExpectedPrograms(t *testing.T) {
	d := &virtual.Driver{Commands: sqlite.Commands()}
	box, err := d.Create(context.Background(), atoll.Spec{Network: atoll.Network{Allow: []string{"example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	names := strings.Fields(expectedPrograms)
	var out strings.Builder
	script := `for n in "$@"; do if type "$n" >/dev/null 2>&1; then echo "$n: has"; else echo "$n: $(bash -c "$n" 2>&1 | tail -n +2)"; fi; done`
	exit, err := box.Exec(context.Background(), atoll.Cmd{Args: append([]string{"bash", "-c", script, "bash"}, names...), Stdout: &out})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	var missing []string
	for line := range strings.Lines(out.String()) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if text == "has" {
			continue
		}
		missing = append(missing, name)
		if !strings.Contains(text, " ") {
			t.Errorf("%s: neither a program nor a hint", name)
		}
	}
	t.Logf("%d names: %d programs, %d hints: %s", len(names), len(names)-len(missing), len(missing), strings.Join(missing, " "))
	if strings.Count(out.String(), "\n") != len(names) || len(missing) > missingLimit {
		t.Errorf("%d lines for %d names, %d missing", strings.Count(out.String(), "\n"), len(names), len(missing))
	}
}
