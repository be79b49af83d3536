package data_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// dumped are files to dump: text with odd bytes, repeated lines, an empty file.
var dumped = []string{"f=hello world\x00\x01\x02\xff\nabc", "g=" + strings.Repeat("a", 64) + "b", "empty=", "z=" + strings.Repeat("\x00", 70) + "x", "all=" + everyByte(), "1file.c=x", "s=ab\x00long enough\x01tab\tin it\x00last one"}

func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func dumps(t *testing.T, loose bool, runs ...string) {
	t.Helper()
	var cases []commandtest.Case
	for _, run := range runs {
		cases = append(cases, commandtest.Case{Run: run, Tree: dumped, Stdin: "standard input\n", Loose: loose})
	}
	commandtest.Compare(t, cases)
}

func TestOdAgreesWithGNU(t *testing.T) {
	var runs []string
	for _, opts := range []string{
		"", "-c", "-An -tx1", "-x", "-b", "-d", "-o", "-i", "-l", "-a", "-tx1z", "-tc -tx1", "-Ax -tx1", "-Ad -c", "-j 3 -N 4 -c", "-v", "-w8 -tx1", "-tf4", "-tf8",
		"-td2 -tu1", "-t zz", "-An -c -w1", "-A x -t x2 -v", "-s", "-f", "-tx4", "-tx8", "--endian=big -tx2", "-S 3", "-to1", "-to4", "-to8", "-N 0", "-tu8", "-td8", "-tcx1", "-tx", "-td",
		"-D", "-F", "-H", "-I", "-L", "-O", "-X", "-w -tx1", "-w3 -tx1", "-tL", "-h", "-e", "-t x1c -A n", "-An -t d1 -t o2z -w12", "-j 2 -N 11 -tx1z", "-tfF", "-t dSdI", "-A q", "-N zz", "-tx3", "-td16", "-w0", "-ta -tc -to1 -td4",
	} {
		for _, file := range []string{"f", "g", "all"} {
			runs = append(runs, "od "+opts+" "+file)
		}
	}
	dumps(t, false, append(runs, "od nofile f", "od -c f g", "od -j 100 f", "od f +3", "od empty", "od", "od -c -", "od z", "od -v z", "od -S 3 s", "od -An -S4 s", "od --zz")...)
}

func TestXxdAgreesWithTheRealOne(t *testing.T) {
	var runs []string
	for _, opts := range []string{
		"", "-p", "-i", "-b", "-u", "-c 8", "-g 1", "-g 4 -e", "-e", "-l 5", "-s 6", "-s -3", "-a", "-p -c 4", "-ps -c0", "-o 16", "-d", "-C -i", "-n name -i", "-c 5 -g 2", "-c 300",
		"-u -p", "-u -i", "-b -c 3", "-g0", "-g 8", "-l 0x10", "-s 0x2 -l 3", "-c4 -g1", "-cols 7", "-len 3", "-i -c 4", "-b -g 2",
	} {
		for _, file := range []string{"f", "g", "z", "empty", "1file.c"} {
			runs = append(runs, "xxd "+opts+" "+file)
		}
	}
	dumps(t, false, append(runs, "xxd", "xxd -i", "xxd -p", "xxd nofile", "xxd f out", "xxd f dump\nxxd -r dump back", "xxd -p g dump\nxxd -r -p dump back", "xxd all dump\nxxd -r dump")...)
	dumps(t, true, "xxd -z", "xxd -c")
}

func TestHexdumpAgreesWithTheRealOne(t *testing.T) {
	var runs []string
	for _, opts := range []string{
		"", "-C", "-c", "-b", "-d", "-o", "-x", "-n 5 -C", "-s 3 -C", "-v -C", "-e '16/1 \"%02x \" \"\\n\"'", "-e '\"%08_ax \" 4/1 \"%02x \" \" |\" 4/1 \"%_p\" \"|\\n\"'", "-ve '1/1 \"%.2x\"'",
		"-e '1/4 \"%d\\n\"'", "-e '/1 \"%_u \"'", "-e '\"%_c\"'", "-n 0", "-e '8/1 \"%3u \" \"\\n\"'", "-e '4/2 \"%5d \" \"\\n\"'", "-e '\"%_ad \" 2/1 \"%02X\" \"\\n\"'", "-C -v -n 40", "-b -c",
	} {
		for _, file := range []string{"f", "g", "empty", "all"} {
			runs = append(runs, "hexdump "+opts+" "+file)
		}
	}
	dumps(t, true, append(runs, "hexdump nofile", "hexdump nofile f", "hexdump f g", "hexdump", "hexdump -C z", "hexdump -e '%' f", "hexdump -zz")...)
}

func TestStringsAgreesWithTheRealOne(t *testing.T) {
	dumps(t, true, "strings s", "strings -n 3 s", "strings -n 9 s", "strings -t d s", "strings -t x -n 2 s", "strings -o s", "strings -f s f", "strings -a g", "strings", "strings nofile", "strings -3 s", "strings -w f", "strings -n 0 s", "strings all")
}
