package file_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestLs(t *testing.T) {
	tree := []string{"b.txt=hello\n", "a.c=x", "0755 run=#!/bin/sh\n", ".hid=1", "dir/x=1", "dir/.y=22", "dir/sub/z=333", "l->b.txt", "ld->dir", "bad->nowhere", "B=big", "bak~=1", "0600 priv=secret", "sp ace=1", "new\nline=2", "file10=1", "file9=22", "1777 tmp/", "4755 su=1", "caf\u00e9=1", "q'uote=1", "f:2=1"}
	var cases []commandtest.Case
	for _, args := range []string{
		"", "-a", "-A", "-1", "-r", "-F", "-p", "--file-type", "-Q", "-b", "-q", "-N", "-m", "-C", "-x", "-C -w 40", "-x -w 40", "-m -w 20", "-C -w 0", "-R", "-R dir", "-d", "-d dir ld", "dir", "ld", "-l ld", "-lH ld", "-L ld", "b.txt dir", "nofile b.txt", "dir tmp nofile",
		"-S", "-X", "-v", "-rS", "-B", "-I '*.c'", "--hide='*.txt'", "-a --hide='*.txt'", "--ignore='f*' --ignore=b*", "--group-directories-first", "-r --group-directories-first", "--color=always", "--color=never", "--color", "--color=always -F dir run",
		"--sort=size", "--sort=version", "--sort=x", "--format=commas", "--format=single-column", "--quoting-style=shell", "--quoting-style=shell-escape", "--quoting-style=shell-always", "--quoting-style=shell-escape-always", "--quoting-style=c", "--quoting-style=escape", "--quoting-style=literal", "--quoting-style=x",
		"--indicator-style=slash", "--indicator-style=classify dir l", "-w x", "-w -1", "-T x", "--zero", "-f b.txt", "-1F", "b.txt/", "l/", "--time=x", "--nosuch", "-1 --width=10", "--block-size=x", "--classify=always", "-L l", "-L bad", "bad", "-H bad", "-C -F", "-x -Q", "-T 0 -C", "--sort=width",
		"-l b.txt run", "-l su tmp -d", "-n priv", "-g b.txt", "-o b.txt", "-lG b.txt", "-lh b.txt", "--full-time b.txt priv", "-l --time-style=long-iso b.txt", "-l --time-style=iso b.txt", "-l --time-style=+%Y/%m/%d_%H:%M:%S.%N b.txt", "-l --time-style=x b.txt", "-l l", "-lF l run", "-l --author b.txt", "-lQ 'sp ace'",
		"-l --block-size=1 b.txt", "-l --block-size=K b.txt", "-l --si b.txt", "-lk b.txt", "-lt b.txt a.c B", "-ltr b.txt a.c", "-lS b.txt a.c B", "-l --color=always l bad", "-l1 b.txt", "-1l b.txt", "-lm b.txt a.c", "-lgo b.txt", "-dlF .", "-l --time-style=full-iso dir/x", "-lL l", "-l file9 file10 -v",
	} {
		cases = append(cases, commandtest.Case{Run: "ls " + args, Tree: tree})
	}
	commandtest.Compare(t, append(cases, commandtest.Case{Run: "dir", Tree: tree}, commandtest.Case{Run: "dir -1", Tree: tree}, commandtest.Case{Run: "ls --color=always", Tree: tree, Env: []string{"TERM=xterm"}}, commandtest.Case{Run: "ls --color=always -F dir run l bad", Tree: tree, Env: []string{"TERM=xterm"}}, commandtest.Case{Run: "ls -l --color=always -d l bad", Tree: tree, Env: []string{"TERM=xterm"}},
		commandtest.Case{Run: "ls", Tree: nil}, commandtest.Case{Run: "ls -R", Tree: []string{"e/", "f/g/h=1"}}, commandtest.Case{Run: "ls -R -a", Tree: []string{"e/", "f/g/h=1"}},
		commandtest.Case{Run: "ls -m", Tree: nil}, commandtest.Case{Run: "ls -C", Tree: nil}, commandtest.Case{Run: "ls a b", Tree: []string{"a/x=1", "b/"}}, commandtest.Case{Run: "ls -l e", Tree: []string{"e/"}}, commandtest.Case{Run: "ls -sh e", Tree: []string{"e/"}}))
}
