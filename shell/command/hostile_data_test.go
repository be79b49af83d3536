package command_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEndlessData runs commands on endless input and on archives that expand to
// more than the quota.
func TestEndlessData(t *testing.T) {
	packed := commandtest.GzipZeros(t, 1<<30)
	packedXz, packedZstd := commandtest.XzZeros(t, 64<<20), commandtest.ZstdZeros(t, 256<<20)
	lines := []string{
		"jq .", "jq -R .", "jq -Rs .", "jq -s .", "jq --stream .", "jq -n until(false;.)", "jq -n [range(1e9)]", "jq -n '\"x\"*1e9'", "gzip -c /dev/zero", "gzip /dev/zero", "zcat bomb.gz", "gunzip bomb.gz",
		"gunzip -c bomb.gz", "gzip -t bomb.gz", "gzip -l bomb.gz", "zcat", "bzcat", "xz -c", "xz -9c /dev/zero", "zstd -c", "zstd -19c /dev/zero", "xzcat", "zstdcat", "xzcat bomb.xz", "zstdcat bomb.zst", "tar cJf - /dev/zero", "tar --zstd -cf - /dev/zero", "tar cf - /dev/zero", "tar xf bomb.gz", "tar tf -", "tar xf - -C out", "tar cf all.tar -T /dev/zero", "zip - /dev/zero", "zip -q x.zip -", "unzip /dev/zero",
		"zip -@ x.zip", "cpio -it", "cpio -o", "od /dev/zero", "od -v /dev/zero", "od -S 3", "od -An -tf8", "od -w65536", "xxd /dev/zero", "xxd -p", "xxd -i", "xxd -r", "xxd -r -p", "hexdump /dev/zero", "hexdump -C", "hexdump -ve '1/1 \"%x\"'",
		"hexdump -e '65536/4096 \"%s\"'", "strings", "strings /dev/zero", "nl", "nl -ba /dev/zero", "tac", "tac /dev/zero", "tac -r -s x*y", "rev", "rev /dev/zero", "fold", "fold -s -w 1000000000", "fold -w 1", "expand", "expand -t 1000000000", "unexpand -a /dev/zero",
		"unexpand -t 1000000000", "split -b 1", "split -l 1 /dev/zero", "split -n 3", "split -n l/3 /dev/zero", "split -n r/1000000000", "split -C 1", "csplit - /x/ {*}", "csplit - 5", "dd", "dd if=/dev/zero of=f", "dd bs=1G", "dd conv=block cbs=1000000", "dd skip=1000000000000",
		"column", "column -t", "column -J -N a", "file -", "file -s /dev/zero", "file -f /dev/zero", "iconv -f utf-8 -t ascii -c", "iconv -f utf-16 -t utf-8 /dev/zero", "iconv -f latin1 -t utf-32", "dos2unix", "unix2dos /dev/zero",
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			s := commandtest.New(t, "/w")
			s.WriteFile("f", "x\n")
			s.WriteFile("bomb.gz", packed)
			s.WriteFile("bomb.xz", packedXz)
			s.WriteFile("bomb.zst", packedZstd)
			s.Must(s.FS.Mkdir("/w/out", 0o755))
			_, err := s.RunBounded(200*time.Millisecond, commandtest.EndlessReader{}, io.Discard, commandtest.SplitWords(line)...)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if n := s.Kernel.Memory(); n != 0 {
				t.Errorf("%d bytes stay charged", n)
			}
		})
	}
}

// TestBombsMeetTheQuota expands archives that exceed the largest file.
func TestBombsMeetTheQuota(t *testing.T) {
	for line, want := range map[string]string{
		"gunzip bomb.gz":                         "gzip: bomb.gz: File too large\n",
		"tar xf bomb.tar":                        "tar: big: Cannot write: File too large\n",
		"dd if=/dev/zero of=f bs=1M status=none": "dd: error writing 'f': File too large\n",
	} {
		s := commandtest.New(t, "/w")
		s.WriteFile("bomb.gz", commandtest.GzipZeros(t, 128<<20))
		s.WriteFile("bomb.tar", "")
		makeTarBomb(s, "bomb.tar", 128<<20)
		o := s.Exec("", commandtest.SplitWords(line)...)
		if !strings.Contains(o.Stderr, want) || o.Code == 0 {
			t.Errorf("%s: %d %q", line, o.Code, o.Stderr)
		}
	}
}

// makeTarBomb writes a compressed archive of one file of n zeros.
func makeTarBomb(s *commandtest.Sandbox, name string, n int64) {
	s.TB.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := commandtest.WriteTar(z, "big", n)
	s.Must(errors.Join(w, z.Close()))
	s.WriteFile(name, b.String())
}
