package command

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// bomb is n zeros compressed by gzip.
func bomb(t testing.TB, n int64) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, zeros{}, n); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEndlessData runs the commands of this family on input without end and
// on archives that expand to more than there is room for.
func TestEndlessData(t *testing.T) {
	packed := bomb(t, 1<<30)
	lines := []string{
		"jq .", "jq -R .", "jq -Rs .", "jq -s .", "jq --stream .", "jq -n until(false;.)", "jq -n [range(1e9)]", "jq -n '\"x\"*1e9'", "gzip -c /dev/zero", "gzip /dev/zero", "zcat bomb.gz", "gunzip bomb.gz",
		"gunzip -c bomb.gz", "gzip -t bomb.gz", "gzip -l bomb.gz", "zcat", "bzcat", "tar cf - /dev/zero", "tar xf bomb.gz", "tar tf -", "tar xf - -C out", "tar cf all.tar -T /dev/zero", "zip - /dev/zero", "zip -q x.zip -", "unzip /dev/zero",
		"zip -@ x.zip", "cpio -it", "cpio -o", "od /dev/zero", "od -v /dev/zero", "od -S 3", "od -An -tf8", "od -w65536", "xxd /dev/zero", "xxd -p", "xxd -i", "xxd -r", "xxd -r -p", "hexdump /dev/zero", "hexdump -C", "hexdump -ve '1/1 \"%x\"'",
		"hexdump -e '65536/4096 \"%s\"'", "strings", "strings /dev/zero", "nl", "nl -ba /dev/zero", "tac", "tac /dev/zero", "tac -r -s x*y", "rev", "rev /dev/zero", "fold", "fold -s -w 1000000000", "fold -w 1", "expand", "expand -t 1000000000", "unexpand -a /dev/zero",
		"unexpand -t 1000000000", "split -b 1", "split -l 1 /dev/zero", "split -n 3", "split -n l/3 /dev/zero", "split -n r/1000000000", "split -C 1", "csplit - /x/ {*}", "csplit - 5", "dd", "dd if=/dev/zero of=f", "dd bs=1G", "dd conv=block cbs=1000000", "dd skip=1000000000000",
		"column", "column -t", "column -J -N a", "file -", "file -s /dev/zero", "file -f /dev/zero", "iconv -f utf-8 -t ascii -c", "iconv -f utf-16 -t utf-8 /dev/zero", "iconv -f latin1 -t utf-32", "dos2unix", "unix2dos /dev/zero",
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			s := newSandbox(t, "/w")
			s.write("f", "x\n")
			s.write("bomb.gz", packed)
			s.must(s.fs.Mkdir("/w/out", 0o755))
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := s.run(ctx, endless{}, io.Discard, words(line)...)
			took := time.Since(start)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if took > 10*time.Second { // the machine may be busy: far above the promise, far below a hang
				t.Errorf("took %v with a deadline of 200 ms", took)
			}
			if n := s.k.Memory(); n != 0 {
				t.Errorf("%d bytes stay charged", n)
			}
		})
	}
}

// TestBombsMeetTheQuota expands what doesn't fit into a file.
func TestBombsMeetTheQuota(t *testing.T) {
	for line, want := range map[string]string{
		"gunzip bomb.gz":                         "gzip: bomb.gz: File too large\n",
		"tar xf bomb.tar":                        "tar: big: Cannot write: File too large\n",
		"dd if=/dev/zero of=f bs=1M status=none": "dd: error writing 'f': File too large\n",
	} {
		s := newSandbox(t, "/w")
		s.write("bomb.gz", bomb(t, 128<<20))
		s.write("bomb.tar", "")
		s.makeTarBomb("bomb.tar", 128<<20)
		o := s.exec("", words(line)...)
		if !strings.Contains(o.Stderr, want) || o.Code == 0 {
			t.Errorf("%s: %d %q", line, o.Code, o.Stderr)
		}
	}
}

// makeTarBomb writes a compressed archive of one file of n zeros.
func (s *sandbox) makeTarBomb(name string, n int64) {
	s.tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tarOf(z, "big", n)
	s.must(errors.Join(w, z.Close()))
	s.write(name, b.String())
}
