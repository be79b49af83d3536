package file_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestFind(t *testing.T) {
	tree := []string{"a/b/c.txt=hello", "a/b/d.go=package main\n", "a/.hid=1", "a/Big.TXT=" + strings.Repeat("x", 5000), "e/", "0755 run.sh=#!/bin/sh\n", "empty=", "l->a/b", "lf->empty", "bad->no", "1777 t/", "4755 su=1", "sp ace/q'uote=1", "a/n1=1", "a/n2=1", "0600 priv=x"}
	cases := each("find", tree, "", ".", "a", "a e", "-name '*.txt'", "-iname '*.txt'", "-type f", "-type d", "-type l", "-type f,d -name 'b*'", "-type x", "-type ff", "-type f,", "-type ''", "-xtype f", "-xtype l", "-name c.txt -o -name d.go", "-not -name '*.txt' -type f", "! -type d", "( -name a -o -name e ) -print", "-path './a/*'", "-ipath '*BIG*'", "-wholename './a/b/*'", "-regex '.*/[cd]\\.[a-z]+'", "-regex '.*\\.\\(txt\\|go\\)'", "-iregex '.*txt'", "-regextype posix-extended -regex '.*\\.(txt|go)'", "-regextype sed -regex '.*o\\{1,2\\}'", "-regextype x -regex a", "-regextype egrep -regex '.*(a|e)$'",
		"-maxdepth 1", "-maxdepth 0", "-mindepth 2", "-mindepth 1 -maxdepth 2", "-maxdepth x", "-name x -maxdepth 1", "-depth", "-d -name a", "-prune", "-name a -prune -o -print", "-path ./a -prune -o -type f -print", "-quit", "-name a -quit", "-name a -print -quit", "-empty", "-empty -type d", "-size 0", "-size +1k", "-size -2", "-size 5000c", "-size +4k -size -6k", "-size 10", "-size 1M", "-size x", "-size 1x", "-size ''",
		"-perm 644", "-perm -u+x", "-perm /111 -type f", "-perm -4000", "-perm /u+s,o+t", "-perm u=rw,g=r,o=r", "-perm x", "-perm +111", "-perm 0", "-perm -0 -name e", "-perm /0 -name e", "-perm 0600 -type f", "-user root -name a", "-user 0 -name a", "-user nosuch", "-group root -name a", "-group nosuch", "-uid 0 -name a", "-gid +0", "-nouser", "-nogroup", "-links 1 -name empty", "-links +1 -type f", "-samefile empty", "-L -samefile empty", "-samefile nofile",
		"-newer empty", "-newermt 2024-03-01", "-newermt '2024-03-02' -type f", "-newermt nonsense", "-newer nofile", "-newerxx a", "-anewer empty -name x", "-mtime +1 -name empty", "-mtime -1 -name empty", "-mmin +1 -name empty", "-mmin -1 -name l", "-mtime 0 -type l", "-mtime x", "-daystart -mtime 0 -type l", "-mtime -0.5 -type l", "-ctime -1 -name a", "-amin x",
		"-name e -print0", "-printf '%p\\n'", "-printf '%f|%h|%H|%P|%d|%y|%Y|%l\\n'", "-type f -printf '%s %m %M %n %u %g %U %G %k %b\\n'", "-name empty -printf '%t|%T@|%T+|%TY-%Tm-%Td|%TH:%TM:%TS|%TT|%TX|%Tc|%Tr|%TD|%TF|%Tx|%Ta|%TA|%Tb|%Tj|%Ts|%TZ|%Tz|%Tk|%Tl|%Te|%TI|%Tp|%TU|%Tw|%TR\\n'", "-name empty -printf '[%10f][%-10f][%.2f][%5s][%05m][%#m][%5d][%-5d]\\n'", "-name empty -printf 'a\\tb\\101\\\\%%\\n'", "-name empty -printf '%q\\n'", "-name empty -printf '\\q\\n'", "-name empty -printf '%'", "-name empty -printf 'a\\cb' -print", "-maxdepth 0 -printf '%p %f %h %P|\\n'", "a/ -maxdepth 1 -printf '%p %f %h %P|\\n'", "/tmp -maxdepth 0 -printf '%p %f %h %P|\\n'", "/ -maxdepth 0 -printf '%p %f %h %P|\\n'",
		"-name '*.txt' -exec echo {} ';'", "-name '*.txt' -exec echo a{}b {} ';'", "-type f -name '*.txt' -exec echo {} +", "-name '*.txt' -exec false ';' -print", "-name '*.txt' -exec true ';' -print", "-name '*.txt' -execdir echo {} ';'", "-name c.txt -execdir echo {} +", "-maxdepth 0 -execdir echo {} ';'", "-exec", "-exec echo {}", "-exec ';'", "-exec echo {} x +", "-exec echo {} {} +", "-name c.txt -exec nosuchcmd {} ';'", "-name c.txt -exec nosuchcmd {} +", "-name c.txt -exec false {} +", "-name empty -exec cat {} + -o -name priv -exec cat {} +",
		"-name c.txt -delete", "a/b -delete", "a -name '*.go' -delete", "e -delete -print", "a -type d -delete", "a -prune -delete", "a -depth -prune -delete", "-name e -fprint out", "-name e -fprintf out '%f\\n'", "-name e -fprint0 out", "-fprint no/out", "-name priv -fprint out -print", "-true -name a", "-false -o -name a", "-name a , -name e", "-name a -a -name e", "-lname '*b'", "-ilname 'EMPTY'", "-L -type f", "-L -type l", "-H l", "l", "l/", "-L l", "-P l", "-follow -name c.txt", "-readable -name a", "-executable -type f", "-writable -name e", "-fstype nosuch",
		"nofile", "nofile a", "-nosuch", "-name", "a b e", "-name a b", "-name a.* c", "( -name a", "-name a )", "( )", "!", "-o", "-name a -o", "-a", "-name a ! ", "-not -not -name a", "-name a/b", "-name '[ab]'", "-name '[!a]' -maxdepth 1", "-name '[[:alpha:]]'", "-name '?'", "-name 'sp*'", "-name '*\\**'", "-name '.hid'", "-name '*' -maxdepth 1", "-name '[a'", "-path '*b*' -type f", "-inum x", "-noleaf -name a", "-xdev -mount -name a", "-warn -name a", "-name a -nowarn -maxdepth 1", "-name a -a", "-warn -name x -maxdepth 1", "-warn -name a/b", "-files0-from nofile", "-O3 -name a", "-D", "-used x", "--", "-- a", "-path './a' -prune -false -o -name '*1'", "-type f ( -name '*1' -o -name '*2' ) -print", "e -print -print", "-iname 'RUN*' -type f")
	for i := range cases {
		cases[i].Mixed = true
	}
	commandtest.Compare(t, cases)
	commandtest.Compare(t, []commandtest.Case{
		{Run: "find -maxdepth 1 -name e -ok echo {} ';'", Tree: tree, Stdin: "y\n"},
		{Run: "find . -maxdepth 1 -name e -okdir echo {} ';'", Tree: tree, Stdin: "n\n"},
		{Run: "find loop", Tree: []string{"loop/x/", "loop/x/l->.."}},
		{Run: "find -L loop", Tree: []string{"loop/x/", "loop/x/l->.."}},
		{Run: "find d -depth", Tree: []string{"d/a/b/c=1"}},
		{Run: "find -files0-from -", Tree: []string{"a=1", "b/c=2"}, Stdin: "a\x00b\x00"},
		{Run: "find d -type f -ls", Tree: nil},
	})
}

func TestFindLs(t *testing.T) {
	s := commandtest.New(t, "/w")
	commandtest.MakeTree(t, s.FS, "/w", []string{"d/f=hello", "d/l->f"})
	got := s.Exec("", "find", "d", "-type", "f", "-ls")
	if !strings.HasSuffix(got.Stdout, "      4 -rw-r--r--   1 root     root            5 Mar  1  2024 d/f\n") {
		t.Errorf("%q", got.Stdout)
	}
	if got := s.Exec("", "find", "d", "-type", "l", "-ls"); !strings.HasSuffix(got.Stdout, " d/l -> f\n") {
		t.Errorf("%q", got.Stdout)
	}
}

func TestFindVisitsNamesInOrder(t *testing.T) {
	s := commandtest.New(t, "/w")
	commandtest.MakeTree(t, s.FS, "/w", []string{"b/z=1", "b/y=1", "a=1", "c=1"})
	if got, want := s.Exec("", "find").Stdout, ".\n./a\n./b\n./b/y\n./b/z\n./c\n"; got != want {
		t.Errorf("%q", got)
	}
}
