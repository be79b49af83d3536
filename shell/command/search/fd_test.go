package search_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

var fdTree = []string{
	"src/main.go=package main\n", "src/Main_test.go=x\n", "src/deep/er/file.txt=hello\n", "README.md=# x\n", ".hidden/secret.txt=s\n", ".config=c\n", "empty/", "none=", "0755 run.sh=#!/bin/sh\n",
	"link->src", "a.tar.gz=0123456789", "sp ace.txt=x", "node_modules/lib/index.js=1", ".ignore=node_modules\n*.log\n", "out.log=log", "src/.fdignore=*.txt\n",
}

// TestFd compares searches with fd 8.6. Its order is that of its threads.
func TestFd(t *testing.T) {
	cases := commandtest.Cases(fdTree, "",
		"fd", "fd main", "fd Main", "fd -s main", "fd -i MAIN", "fd -e go", "fd -e .GO -e md", "fd -e gz", "fd -e tar.gz", "fd -t d", "fd -t f", "fd -t l", "fd -t x", "fd -t e", "fd -t f -t l", "fd -t e -t d", "fd -H", "fd -I", "fd -u", "fd -HI secret", "fd --no-ignore-vcs log",
		"fd . src", "fd txt src README.md", "fd . src empty", "fd -d 1", "fd --max-depth 2 go", "fd --min-depth 2", "fd --exact-depth 2", "fd -g *.go", "fd -g *.{go,md}", "fd -g main.go", "fd -p src/m", "fd -g -p **/src/*.go", "fd -F a.tar", "fd -F .go", "fd ^m", "fd 'go$'", "fd [0-9]", "fd m(ain|d)",
		"fd -E src", "fd -E *.go", "fd -E src/deep", "fd -E empty -t d", "fd -S +5b", "fd -S -5b -t f", "fd -S 10b", "fd --changed-before 2024-03-02 go", "fd --changed-within 2024-03-02 go", "fd --changed-within 1d go", "fd -L file", "fd -L -I . link", "fd --prune -t d", "fd -a go", "fd -0 -e go",
		"fd -q go", "fd -q nothing", "fd nothing", "fd --search-path src go", "fd --base-directory src", "fd -x echo {}", "fd -e go -x echo {/} {//} {.} {/.}", "fd -e go -x echo", "fd -e go -x echo {} ; README", "fd -e md -X wc -l", "fd -e md . src -x echo", "fd -a -e md -x echo",
		"fd -c never md", "fd -j 1 md", "fd --strip-cwd-prefix md", "fd -t f --and test main", "fd -l -e none", "fdfind md", "fd -e nothing -X echo", "fd . ./src -e go", "fd . src/ -e go",
	)
	for _, line := range []string{"fd . nodir", "fd a/b", "fd '('", "fd -t q", "fd -S x", "fd --changed-within nonsense", "fd -d x", "fd --bad"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: fdTree, Loose: true})
	}
	git := append([]string{".git/HEAD=ref: refs/heads/main\n", ".gitignore=/README.md\n!keep.log\nempty/\n", "keep.log=1"}, fdTree...)
	cases = append(cases, commandtest.Cases(git, "", "fd", "fd . src", "fd --no-ignore-vcs", "fd -H -d 1", "fd -HE .git -d 1")...)
	for i := range cases {
		cases[i].Rare, cases[i].Mixed = true, true
	}
	commandtest.Compare(t, cases)
}

// TestFdPassesByWhatCannotBeRead checks that directories that can't be read are reported with --show-errors alone, and are
// no error, as with fd 8.6: the directory /proc/PID/fd of another process is one.
func TestFdPassesByWhatCannotBeRead(t *testing.T) {
	s := commandtest.New(t, "/w")
	if o := s.Exec("", "env", "fd", ".", "/proc"); o.Code != 0 || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
	if o := s.Exec("", "env", "fd", "--show-errors", ".", "/proc"); o.Code != 0 || !strings.Contains(o.Stderr, "[fd error]: /proc/") {
		t.Errorf("with --show-errors: %+v", o)
	}
}
