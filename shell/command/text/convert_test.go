package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestIconvAgreesWithTheRealOne(t *testing.T) {
	tree := []string{"u8=café €\n", "l1=caf\xe9\n", "bad=a\xffb\n", "le=\xff\xfea\x00\xe9\x00", "odd=a\x00b", "q=“x” – é ﬁ ß … ½ æ\n", "euro=\x80\xa4\n", "emoji=a😀b\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"iconv -f utf-8 -t latin1 u8", "iconv -f latin1 -t utf8 l1", "iconv -f utf8 -t ascii u8", "iconv -f utf8 -t ascii//TRANSLIT u8", "iconv -f utf8 -t ascii//IGNORE u8", "iconv -c -f utf8 -t ascii u8",
		"iconv -f utf8 -t utf-16 u8", "iconv -f utf8 -t utf-16le u8", "iconv -f utf8 -t utf-32 u8", "iconv -f utf8 -t utf8 bad", "iconv -f utf8 -t utf8//IGNORE bad", "iconv -f zz -t utf8 u8", "iconv -t latin1 nofile",
		"iconv -f utf8 -t utf16 -o out u8", "iconv -f latin1 l1", "iconv -f utf8 -t UTF-16BE u8", "iconv -f cp1252 -t utf8 euro", "iconv -t zz u8", "iconv -f utf-16 -t utf8 le", "iconv -f utf-16le -t utf8 odd",
		"iconv -f utf8 -t ascii//TRANSLIT q", "iconv -f iso-8859-15 -t utf8 euro", "iconv -f utf8 -t iso-8859-15 u8", "iconv -f utf8 -t utf16 emoji", "iconv -f utf8 -t utf-32be emoji", "iconv -f latin1 -t utf8", "iconv -f utf8 -t latin1//TRANSLIT emoji",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, Stdin: "\xe4\n"})
	}
	commandtest.Compare(t, cases)
}

func TestDos2unixConvertsLineEnds(t *testing.T) {
	for _, test := range []struct {
		name, before, after string
		args                []string
	}{
		{"ToUnix", "a\r\nb\r\n", "a\nb\n", []string{"dos2unix", "f"}},
		{"ToDOS", "a\nb\r\n", "a\r\nb\r\n", []string{"unix2dos", "f"}},
		{"Mark", "\xef\xbb\xbfa\r\n", "a\n", []string{"dos2unix", "-q", "f"}},
		{"Binary", "a\x00\r\n", "a\x00\r\n", []string{"dos2unix", "f"}},
		{"Forced", "a\x00\r\n", "a\x00\n", []string{"dos2unix", "-f", "f"}},
		{"LoneReturns", "a\rb\r\n", "a\rb\n", []string{"dos2unix", "f"}},
		{"End", "a", "a\r\n", []string{"unix2dos", "-e", "f"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := commandtest.New(t, "/work")
			s.WriteFile("f", test.before)
			if got := s.Exec("", test.args...); got.Code != 0 {
				t.Errorf("code %d: %s", got.Code, got.Stderr)
			}
			if got := s.ReadFile("f"); got != test.after {
				t.Errorf("got %q, want %q", got, test.after)
			}
		})
	}
	s := commandtest.New(t, "/work")
	if got := s.Exec("x\r\n", "dos2unix"); got.Stdout != "x\n" {
		t.Errorf("a stream became %q", got.Stdout)
	}
	if got := s.Exec("", "dos2unix", "nofile"); got.Code != 2 {
		t.Errorf("a missing file gives %d", got.Code)
	}
}
