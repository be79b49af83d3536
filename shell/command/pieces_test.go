package command

import (
	"fmt"
	"strings"
	"testing"
)

func countTo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

func TestSplitAgreesWithGNU(t *testing.T) {
	var cases []deed
	for _, run := range []string{
		"split -l 10 f", "split -b 20 f p.", "split -n 3 f", "split -n l/3 f", "split -n r/3 f", "split -d -a 3 -l 10 f z", "split -l 10 --additional-suffix=.txt --numeric-suffixes=5 f q", "split -C 20 f",
		"split -l 1 -a 1 f", "split -l 0 f", "split -b zz f", "split nofile", "split --verbose -l 15 f", "split -n 2/3 f", "split -n l/2/3 f", "split -x -l 10 f", "split -t : -l 1 f", "split -e -n 40 f", "split -n 40 f",
		"split -l 5 -b 3 f", "split -10 f", "split -b 1K f", "split", "split -l 1", "split - out.", "split -a 1 -l 1 long", "split -l 1 long", "split -n l/7 long", "split -n r/2/4 long", "split -C 1 f", "split f a b", "split -n 0 f",
		"split -n 4/3 f", "split -a 1 -b 1 f", "split empty", "split -n 3 empty", "split -d -l 3 long", "split -b 3 f dir/nothere/x",
	} {
		cases = append(cases, deed{run: run, tree: []string{"f=" + countTo(25), "long=" + countTo(700), "empty=", "dir/"}, stdin: "a\nb\nc"})
	}
	compare(t, cases)
}

func TestDdAgreesWithGNU(t *testing.T) {
	var cases []deed
	for _, run := range []string{
		"dd if=f of=o status=noxfer", "dd if=f bs=4 count=2 status=noxfer", "dd if=f bs=4 skip=2 count=1 status=none", "dd if=f of=o bs=4 seek=2 conv=notrunc count=1 status=noxfer", "dd if=f of=g bs=4 seek=2 conv=notrunc count=1 status=noxfer",
		"dd if=f of=g bs=4 seek=1 count=1 status=none", "dd if=nofile", "dd zz=1", "dd if=f conv=ucase,zz", "dd if=f bs=x", "dd if=t conv=ucase status=none", "dd if=t conv=lcase,swab status=none", "dd if=f bs=0", "dd if=f count=1 skip=100 status=noxfer",
		"dd if=f of=nodir/x", "dd if=f ibs=3 obs=7 count=5 of=o status=noxfer", "dd foo", "dd if=f status=zz", "dd if=f iflag=count_bytes count=5 status=none", "dd if=f conv=block cbs=4 status=none", "dd conv=sync bs=8 status=noxfer", "dd status=noxfer",
		"dd bs=2x3 count=1 status=noxfer if=f", "dd if=f bs=1k status=noxfer", "dd if=f oflag=append of=g conv=notrunc status=none", "dd if=f of=g conv=excl", "dd if=f of=new conv=nocreat", "dd if=f bs=3 skip=4B status=none count=2", "dd if=f count=7B status=none",
		"dd if=b conv=unblock cbs=4 status=none", "dd if=empty of=o status=noxfer", "dd if=f iflag=fullblock bs=10 count=3 status=noxfer", "dd if=f iflag=zz",
	} {
		cases = append(cases, deed{run: run, tree: []string{"f=" + countTo(25), "g=0123456789abcdef", "t=Some Text here\n", "empty=", "b=a   bb  ccc dddd"}, stdin: "abc\n"})
	}
	compare(t, cases)
}
