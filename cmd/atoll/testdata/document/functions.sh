# Commands of the documents that wait for a person, or serve until they are ended, in the form in which
# a script can run them. All other calls of atoll run as they are. Addresses are free ports.

state=$PWD # directory of the files of these functions
server=    # address of the server that serve has started

atoll() {
	local args=("${@//8080:3000/0:3000}")
	args=("${args[@]/0.0.0.0:7080/0.0.0.0:0}")
	case "$*" in
	"serve --stop") command atoll "$@" ;;
	"serve "*) start_server "${args[@]//127.0.0.1:7070/127.0.0.1:0}" ;;
	"proxy revoke "*) command atoll proxy revoke "$(command atoll proxy links --json | sed -n 's/.*"id": "\(l[^"]*\)".*/\1/p')" ;;
	"login "*) command atoll "${args[@]//127.0.0.1:7070/$server}" ;;
	"port forward "* | *"ssh --port "* | *" --watch") run_until_output "${args[@]}" ;;
	"network test "*) command atoll "$@" || [ $? = 1 ] ;; # 1: it would be refused
	"chat "*) command atoll "$@" <<<"be brief" ;;
	"open "*) open_port "$2" "$3" ;;
	"exec -it "* | "ssh "* | "attach "*) run_on_terminal "$@" ;;
	*) command atoll "$@" ;;
	esac
}

# start_server starts a server and waits until it listens.
start_server() {
	if [ -e "$state/server.pid" ]; then kill "$(cat "$state/server.pid")" && wait "$(cat "$state/server.pid")"; fi
	command atoll "$@" >"$state/server.log" 2>&1 &
	echo $! >"$state/server.pid"
	for ((i = 0; i < 600; i++)); do
		[ -S "$ATOLL_HOME/atoll.sock" ] && command atoll ls >/dev/null 2>&1 && break
		kill -0 "$(cat "$state/server.pid")" || { cat "$state/server.log" >&2 && return 1; }
		sleep 0.1
	done
	server=$(sed -n 's/.*address=http:\/\/\(127[^ ]*\).*/\1/p' "$state/server.log" | head -n 1)
	trap 'kill "$(cat "$state/server.pid")"; wait' EXIT
}

# run_until_output runs a command that serves until it is ended, until its first output.
run_until_output() {
	command atoll "$@" >"$state/output" 2>&1 &
	local pid=$!
	until [ -s "$state/output" ]; do
		kill -0 "$pid"
		sleep 0.1
	done
	cat "$state/output"
	kill "$pid"
	wait "$pid" || true
}

# open_port opens a port of a sandbox after it has started a program that listens there.
open_port() { # SANDBOX PORT
	command atoll exec -d "$1" -- busybox httpd -f -p "$2" >/dev/null
	until command atoll open --print "$1" "$2" >/dev/null 2>&1; do sleep 0.1; done
	command atoll open "$1" "$2"
}

# run_on_terminal runs a command on a terminal and leaves it: by Ctrl-P Ctrl-Q, by Ctrl-C if it only
# watches, or by the end of the shell. Keys are repeated: a program drops those that come too early.
run_on_terminal() {
	local keys='exit\n'
	[ "$1" != attach ] || keys='\020\021'
	[[ "$*" != *--read-only* ]] || keys='\003'
	(trap '' PIPE && while printf '%b' "$keys" 2>/dev/null; do sleep 0.3; done) | script -qefc "$(printf '%q ' atoll "$@")" /dev/null || [ $? = 130 ] # interrupted
}

# The configuration that atoll config-ssh writes is that of $HOME, which ssh does not read.
ssh() { command ssh -F "$HOME/.ssh/config" "$@" </dev/null; }
scp() { command scp -F "$HOME/.ssh/config" "$@"; }

set -eo pipefail

# make_repository makes a git repository of one commit.
make_repository() {
	git config --global user.name Ada
	git config --global user.email ada@example.com
	git config --global init.defaultBranch main
	mkdir -p "$1" && echo one >"$1/file"
	git -C "$1" init -q
	git -C "$1" add .
	git -C "$1" commit -qm one
}
