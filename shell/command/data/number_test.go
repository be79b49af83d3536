package data_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestExpr(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases(nil, "",
		"expr", "expr 1", "expr 0", "expr ''", "expr a", "expr 1 + 2", "expr 5 - 8", "expr 3 '*' 4", "expr 7 / 2", "expr -7 / 2", "expr -7 % 3", "expr 1 / 0", "expr 1 % 0", "expr a + 1", "expr 2 + 3 '*' 4", "expr '(' 2 + 3 ')' '*' 4", "expr 10 - 2 - 3",
		"expr 1 '<' 2", "expr 10 '<' 9", "expr abc '<' abd", "expr 10 = 10.0", "expr 007 = 7", "expr a = a", "expr a != b", "expr 3 '>=' 3", "expr 3 '<=' 2", "expr a == a", "expr '' '|' b", "expr 0 '|' 0", "expr a '|' b", "expr a '&' b", "expr a '&' 0", "expr 0 '&' 1/0", "expr 1 '|' 1 / 0", "expr 0 '&' 1 / 0", "expr 00 '|' x",
		"expr abc : abc", "expr abc : b", "expr abc : 'a.*'", "expr abcdef : '.*\\(cd\\)'", "expr abc : '\\(x\\)'", "expr aaa : 'a*'", "expr foobar : 'foo\\(.*\\)'", "expr foo.c : '\\(.*\\)\\.c'", "expr abc : '\\(b\\|a\\)'", "expr xabc : 'a'", "expr abc : ''", "expr '' : ''", "expr 'a\\(' : 'a('", "expr abc : '\\('", "expr bab : 'a\\|ba'", "expr aXa : '\\(.\\)X\\1'",
		"expr length hello", "expr length ''", "expr match abc 'a.'", "expr substr hello 2 3", "expr substr hello 0 3", "expr substr hello 2 99", "expr substr hello x 1", "expr substr hello 9 1", "expr index hello lo", "expr index hello z", "expr length héé", "expr index héz z", "expr substr héz 2 1", "expr + length", "expr length + match", "expr + +",
		"expr 1 2", "expr 1 +", "expr '('", "expr '(' 1", "expr ')' 1", "expr '(' 1 2", "expr + 1 +", "expr 99999999999999999999 + 1", "expr 99999999999999999999 '*' 99999999999999999999", "expr -- -1 + 2", "expr -1", "expr -0", "expr -- a", "expr 1 + -2", "expr a : b : c", "expr --nosuch", "expr 5 '>' '(' 2 + 1 ')'", "expr match abc", "expr /usr/lib : '.*/\\(.*\\)'",
	))
}

func TestFactor(t *testing.T) {
	if o := commandtest.New(t, "/w").Exec("", "factor", "-h", "360", "97"); o.Stdout != "360: 2^3 3^2 5\n97: 97\n" {
		t.Errorf("%+v", o) // newer than the host's
	}
	commandtest.Compare(t, commandtest.Cases(nil, "12 13\n\n 60\nabc\n-3\n", "factor", "factor 1", "factor 0", "factor 2", "factor 97", "factor 100", "factor 1000000007", "factor 18446744073709551615", "factor 18446744073709551557", "factor 18446744073709551616", "factor 340282366920938463463374607431768211455", "factor +12", "factor ''", "factor a", "factor 1.5", "factor 4294967297", "factor 1000000016000000063", "factor 6 x 7", "factor -z"))
}

func TestNumfmt(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=h1 h2\n1024 2048\n1500 x\n"}, "1000 a\n2000000 b\n  999  c\n",
		"numfmt --to=si 1000", "numfmt --to=si 999 1000 1001 1499 1500 9999 10000 99999 999999 1000000", "numfmt --to=iec 1023 1024 1025 1536 10240 1048576", "numfmt --to=iec-i 1024 1048575 1073741824", "numfmt --from=si 1K 1.5M 2G", "numfmt --from=iec 1K 1.5M 2G", "numfmt --from=iec-i 1Ki 2Mi", "numfmt --from=iec-i 1K", "numfmt --from=auto 1K 1Ki", "numfmt 1K", "numfmt 1 2.5 -3 0.10", "numfmt abc", "numfmt ''", "numfmt 1x", "numfmt --from=si 1Kx", "numfmt --from=si 1k",
		"numfmt --to=si", "numfmt --field=2 --to=si", "numfmt --field=1-2 --to=si", "numfmt --header --field=1,2 --to=iec -d ' ' --invalid=ignore", "numfmt --padding=10 1 22", "numfmt --padding=-10 1 22", "numfmt --padding=0 1", "numfmt --suffix=B 5", "numfmt --suffix=B --to=si 5000", "numfmt --suffix=B --from=si 5KB", "numfmt --format=%.2f 1.239", "numfmt --format=%10f 5", "numfmt --format=%-10fx 5", "numfmt --format=%05f 5", "numfmt --format=x%fy%% 5", "numfmt --format=%d 5", "numfmt --format=abc 5", "numfmt --format=%f%f 5", "numfmt --format=%.1f --to=si 1234567", "numfmt --format=% 5",
		"numfmt --round=up --to=si 1234", "numfmt --round=down --to=si 1299", "numfmt --round=nearest --to=si 1250", "numfmt --round=towards-zero --to=si -- -1999", "numfmt --round=from-zero --to=si -- -1901", "numfmt --round=x 5", "numfmt --from-unit=1024 5", "numfmt --to-unit=1000 5000", "numfmt --to-unit=K 5000", "numfmt --from-unit=x 5", "numfmt --invalid=warn a 5", "numfmt --invalid=fail a 5", "numfmt --invalid=ignore a 5", "numfmt --invalid=abort a 5", "numfmt -d , --field=2 --to=si 1,2000,3", "numfmt -d xx 5", "numfmt --field=0 5", "numfmt --field=x 5", "numfmt --to=x 5", "numfmt --from=si --to=iec 1M", "numfmt --grouping 1234567", "numfmt --grouping --to=si 5", "numfmt --to=si 0 1 10", "numfmt --to=si 123456789012345678901234", "numfmt 99999999999999999999", "numfmt --from=iec 8E", "numfmt -z --to=si 1000", "numfmt --to=iec --padding=8 1048576", "numfmt --format=%10.1f --format=%.2f 7", "numfmt --format=%08.3f --suffix=B 7", "numfmt --format=%08.3f --to=si 1999", "numfmt --to-unit=1000 0.5", "numfmt --from-unit=512 12.34", "numfmt --to=si 1.049 0.5 999.9", "numfmt --format=%10.1f --padding=12 5",
	))
	commandtest.Compare(t, commandtest.Cases(nil, "h1 h2\n1024 2048\n", "numfmt --header --to=iec", "numfmt --header=2 --to=iec", "numfmt --header=x", "numfmt --to=iec --field=-", "numfmt --field=2 --to-unit=1000"))
}

func TestChecksums(t *testing.T) {
	tree := []string{"a=hello\n", "b=", "c d=" + strings.Repeat("block of text ", 5000), "e\\f=x\n", "g\nh=y\n", "d/"}
	for _, tool := range []string{"md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"} {
		commandtest.Compare(t, commandtest.Cases(tree, "stdin text", tool+" a b", tool+" 'c d' nofile d", tool, tool+" -", tool+" -b a", tool+" --tag a", tool+" e\\f $'g\\nh'", tool+" -z e\\f", tool+" --status a", tool+" -c nofile", tool+" -c a"))
	}
	commandtest.Compare(t, commandtest.Cases(tree, "xyz", "sum a", "sum a b", "sum", "sum -s a", "sum -s a 'c d'", "sum -r 'c d'", "cksum a b", "cksum", "cksum 'c d'", "cksum -a md5 a", "cksum -a sha256 --untagged a", "cksum -a bsd a", "cksum -a sysv 'c d'", "cksum -a crc a", "cksum -a blake2b -l 128 a", "b2sum -l 128 a", "b2sum -l 128 --tag a", "b2sum -l 7 a", "b2sum -l 1024 a", "b2sum -l x a", "cksum nofile", "sum nofile", "md5sum --tag -c a", "md5sum -z -c a", "md5sum -w a", "md5sum --quiet a", "md5sum --strict a"))
	lists := append(tree, "l=b1946ac92492d2347c6235b4d2611184  a\nbad line\n00000000000000000000000000000000  b\n00000000000000000000000000000000  nofile\nMD5 (b) = d41d8cd98f00b204e9800998ecf8427e\n",
		"ok=b1946ac92492d2347c6235b4d2611184 *a\n# comment\n\nd41d8cd98f00b204e9800998ecf8427e  b\r\n", "gone=b1946ac92492d2347c6235b4d2611184  zz\n", "esc=\\d41d8cd98f00b204e9800998ecf8427e  e\\\\f\n", "tags=SHA256 (a) = 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03\nMD5 (b) = d41d8cd98f00b204e9800998ecf8427e\n")
	commandtest.Compare(t, commandtest.Cases(lists, "", "md5sum -c l", "md5sum -c ok", "md5sum -c --quiet l", "md5sum -c --quiet ok", "md5sum -c --status l", "md5sum -c --status ok", "md5sum -c -w l", "md5sum -c --strict l", "md5sum -c --ignore-missing l", "md5sum -c --ignore-missing gone", "md5sum -c gone", "md5sum -c ok l", "md5sum -c esc", "sha256sum -c l", "cksum -c tags", "cksum -a md5 -c l", "cksum -a md5 -c tags", "cksum -c l", "sha256sum -c tags", "md5sum -c tags"))
	commandtest.Compare(t, commandtest.Cases(lists, "b1946ac92492d2347c6235b4d2611184  a\n", "md5sum -c", "md5sum -c -"))
}

func TestBases(t *testing.T) {
	all := make([]byte, 0, 256)
	for i := range 256 {
		all = append(all, byte(i))
	}
	big := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(big) // it never fails
	tree := []string{"f=hello world\n", "e=", "one=a", "two=ab", "all=" + string(all), "big=" + string(big), "eight=12345678"}
	var cases []commandtest.Case
	for _, args := range []string{"base64 %s", "base64 -w 0 %s", "base64 -w 7 %s", "base32 %s", "base32 -w 20 %s", "basenc --base64url %s", "basenc --base32hex %s", "basenc --base16 %s", "basenc --base2msbf %s", "basenc --base2lsbf %s"} {
		for _, f := range []string{"f", "e", "one", "two", "all", "big"} {
			cases = append(cases, commandtest.Case{Run: strings.ReplaceAll(args, "%s", f), Tree: tree})
		}
	}
	commandtest.Compare(t, cases)
	commandtest.Compare(t, commandtest.Cases(tree, "", "basenc --z85 eight", "basenc --z85 f", "basenc f", "base64 a b", "base64 nofile", "base64 -w x f", "base64 -w -1 f", "base64 -z", "base32 -w 0 e"))
	var decode []commandtest.Case
	for _, in := range []string{"aGVsbG8K", "aGVs\nbG8K\n", "aGVsbG8", "aGVsbG8=", "aGVsbG8K!", "aGVs bG8K", "!!!", "", "YQ==", "YQ==YQ==", "YQ", "YQ=", "YR==", "=", "aGV=bG8K", "YWI=YQ=="} {
		decode = append(decode, commandtest.Case{Name: "decode " + in, Run: "base64 -d", Stdin: in}, commandtest.Case{Name: "garbage " + in, Run: "base64 -di", Stdin: in})
	}
	for _, in := range []string{"NBSWY3DPBI======", "NBSWY3DP", "NBSWY3DPBI", "nbswy3dp", "ME======"} {
		decode = append(decode, commandtest.Case{Name: "decode32 " + in, Run: "base32 -d", Stdin: in})
	}
	commandtest.Compare(t, append(decode, commandtest.Case{Run: "basenc --base16 -d", Stdin: "48656C6C6F"}, commandtest.Case{Run: "basenc --base16 -d", Stdin: "486"}, commandtest.Case{Run: "basenc --base2msbf -d", Stdin: "01000001"}, commandtest.Case{Run: "basenc --base2lsbf -d", Stdin: "10000010"}, commandtest.Case{Run: "basenc --z85 -d", Stdin: "f!$Kw"}, commandtest.Case{Run: "basenc --base64url -d", Stdin: "-_-_"}, commandtest.Case{Run: "base64 -d", Stdin: "-_-_"}))
}
