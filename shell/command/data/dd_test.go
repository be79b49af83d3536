package data_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestDdAgreesWithGNU(t *testing.T) {
	var cases []commandtest.Case
	for _, run := range []string{
		"dd if=f of=o status=noxfer", "dd if=f bs=4 count=2 status=noxfer", "dd if=f bs=4 skip=2 count=1 status=none", "dd if=f of=o bs=4 seek=2 conv=notrunc count=1 status=noxfer", "dd if=f of=g bs=4 seek=2 conv=notrunc count=1 status=noxfer",
		"dd if=f of=g bs=4 seek=1 count=1 status=none", "dd if=nofile", "dd zz=1", "dd if=f conv=ucase,zz", "dd if=f bs=x", "dd if=t conv=ucase status=none", "dd if=t conv=lcase,swab status=none", "dd if=f bs=0", "dd if=f count=1 skip=100 status=noxfer",
		"dd if=f of=nodir/x", "dd if=f ibs=3 obs=7 count=5 of=o status=noxfer", "dd foo", "dd if=f status=zz", "dd if=f iflag=count_bytes count=5 status=none", "dd if=f conv=block cbs=4 status=none", "dd conv=sync bs=8 status=noxfer", "dd status=noxfer",
		"dd bs=2x3 count=1 status=noxfer if=f", "dd if=f bs=1k status=noxfer", "dd if=f oflag=append of=g conv=notrunc status=none", "dd if=f of=g conv=excl", "dd if=f of=new conv=nocreat", "dd if=f bs=3 skip=4B status=none count=2", "dd if=f count=7B status=none",
		"dd if=b conv=unblock cbs=4 status=none", "dd if=empty of=o status=noxfer", "dd if=f iflag=fullblock bs=10 count=3 status=noxfer", "dd if=f iflag=zz",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: []string{"f=" + commandtest.CountTo(25), "g=0123456789abcdef", "t=Some Text here\n", "empty=", "b=a   bb  ccc dddd"}, Stdin: "abc\n"})
	}
	commandtest.Compare(t, cases)
}
