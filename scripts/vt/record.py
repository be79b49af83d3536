#!/usr/bin/env python3
"""Records programs on a terminal for internal/guest/vt's tests: what they write, as it is.

usage: scripts/vt/record.py internal/guest/vt/testdata
"""
import fcntl, os, pty, select, signal, struct, sys, tempfile, termios, time

ROWS, COLS = 24, 80

def record(name, args, keys, out):
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(HERE)
        env = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "HOME": "/nonexistent", "TMUX_TMPDIR": HERE, "HOSTNAME": "box",
               "PATH": "/usr/bin:/bin", "PS1": "\\[\\e[1;32m\\]box\\[\\e[m\\]:\\w$ "}
        os.execvpe(args[0], args, env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    data = b""
    def drain(quiet):
        nonlocal data
        end = time.time() + quiet
        while time.time() < end:
            if not select.select([fd], [], [], 0.05)[0]:
                continue
            try:
                part = os.read(fd, 65536)
            except OSError:
                return
            if not part:
                return
            # vim and tmux ask what terminal this is and wait for the answer
            if b"\x1b[c" in part: os.write(fd, b"\x1b[?1;2c")
            if b"\x1b[>c" in part: os.write(fd, b"\x1b[>0;276;0c")
            data += part
            end = time.time() + quiet
    drain(0.7)
    for key in keys:
        os.write(fd, key.encode())
        drain(0.4)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with open(os.path.join(out, name + ".raw"), "wb") as f:
        f.write(data[:60_000])
    print(name, len(data))

# What is recorded shows nothing of the machine: files are made here, hosts and
# processes are nobody's.
HERE = tempfile.mkdtemp()
for n in range(60):
    open(f"{HERE}/file-{n:02}.txt", "w").write(f"line of file {n}\n" * n)
    if n % 7 == 0: os.mkdir(f"{HERE}/dir-{n}")
    if n % 5 == 0: os.chmod(f"{HERE}/file-{n:02}.txt", 0o755)
open(f"{HERE}/long", "w").write("".join(f"{i}\tname-{i}\t# tcp and udp {'=' * (i % 90)}\n" for i in range(1, 400)))
open(f"{HERE}/tmux.conf", "w").write("set -g status-left '[one] '\nset -g status-right 'right'\nset -g default-command 'bash --norc'\n")
# a program that draws meters and a table again and again, as top and htop do
open(f"{HERE}/meters", "w").write(r"""#!/bin/bash
printf '\e[?1049h\e[?25l\e[?1h\e=\e[?1006;1000h\e[H\e[2J'
for turn in 1 2 3 4 5 6; do
  for cpu in 0 1 2 3; do
    n=$(( (turn * 13 + cpu * 7) % 50 ))
    printf '\e[%d;3H\e[36m%d\e[39m\e[1m[\e[m\e[32m%*s\e[m\e[K\e[%d;60H\e[90m%5d.%d%%\e[39m\e[1m]\e[m' $((cpu + 1)) $cpu $n "$(printf '|%.0s' $(seq $n))" $((cpu + 1)) $n $turn
  done
  printf '\e[7;1H\e[30;42m  PID USER      PRI  NI  VIRT   RES S CPU%% MEM%%   TIME+  Command\e[K\e[m'
  for row in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
    printf '\e[%d;1H' $((row + 7))
    [ $row = $turn ] && printf '\e[30;46m'
    printf '%5d nobody     20   0  %dM \e[1;3%dm%4dK\e[22;39m S %d.%d  0.%d  0:0%d.%d command --with argument-%d\e[K\e[m' $((row * turn)) $((row * 3)) $((row % 8)) $((row * 100)) $row $turn $row $turn $row $((row * turn))
  done
  printf '\e[24;1HF1\e[30;46mHelp  \e[mF2\e[30;46mSetup \e[m\e[9;23r\e[9H\e[%s\e[r' $([ $((turn % 2)) = 0 ] && echo M || echo L)
done
sleep 5
""")

RECORDINGS = {
    "bash": (["bash", "--norc"], ["clear\r", "ls --color=always -l | head -40\r", "ls --color=always -C\r", "echo a-long-line-", "x" * 100, "\x01", "\x0b", "printf '\\e[38;2;200;100;50mtrue\\e[48;5;27mcolour\\e[m\\n'\r",
                                  "echo '漢字仮名 e\u0301 ü 🙂 |'\r", "cat long | head -80\r", "\x12", "echo", "\x07", "\r", "echo " + "wide漢字" * 20 + "\r"]),
    "vim": (["vim", "-u", "NONE", "-N", "-c", "syntax on", "-c", "set number ruler hlsearch", "long"],
            ["/tcp\r", "n", "n", ":split\r", "\x06", "\x17w", "ddp", "oInserted 漢字 text\x1b", ":vsplit\r", "G", "gg", ":set list\r"]),
    "vim-left": (["vim", "-u", "NONE", "-N", "file-30.txt"], ["dd", ":q!\r"]),
    "less": (["less", "-R", "long"], ["f", "f", "/udp ==*\r", "b", "G", "g", "\x1b[B", "\x1b[B"]),
    "meters": (["bash", "meters"], []),
    "tmux": (["tmux", "-L", "vt-recording", "-f", "tmux.conf", "new-session"],
             ["ls\r", "\x02%", "seq 50\r", "\x02\"", "head -5 long\r", "\x02o", "echo '漢字'\r", "\x02z", "\x02z"]),
    "shapes": (["sh", "-c", "printf '\\033(0lqqk\\nx  x\\nmqqj\\033(B\\n'; printf 'a\\tb\\tc\\r\\n'; printf '\\033[5;10r\\033[5H'; seq 20; printf '\\033[r\\033[20H\\033[1;4;7mend\\033[m\\033[4:3mcurly\\033[24m';"
                "printf '\\033[3;3H\\033[2L\\033[4P\\033[3@\\033[10X'; printf '\\033[22;70Hwrapped over the edge of the screen\\033[2b'; printf '\\033[?6h\\033[H*\\033[?6l'; sleep 5"], []),
}

for name, (args, keys) in RECORDINGS.items():
    record(name, args, keys, os.path.abspath(sys.argv[1]))
os.system("tmux -L vt-recording kill-server 2>/dev/null")
