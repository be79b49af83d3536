package archive_test

import (
	"archive/tar"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestTarAgreesWithGNU(t *testing.T) {
	tree := []string{"d/s/b=yo\n", "0755 run=#!/bin/sh\n", "a=hi\n", "l->a", "junk=this is no archive\n", "out/", "list=a\nrun\n", "sp ace=x", "e/"}
	var cases []commandtest.Case
	for _, run := range []string{
		"tar cf t.tar a\ntar tf t.tar\ntar tvf t.tar\nrm t.tar", "tar cf t.tar d\ntar tvf t.tar\ntar xvf t.tar -C out\nrm t.tar", "tar -czf t.tgz d a\ntar tzf t.tgz\ntar -xzvf t.tgz -C out d/s\nrm t.tgz",
		"tar czf t.tgz d a run l\ntar tf t.tgz\ntar xf t.tgz --directory=out --strip-components=1\nrm t.tgz", "tar cvf t.tar a nofile\nrm t.tar", "tar cf t.tar\n", "tar", "tar -t -f nofile", "tar tf junk",
		"tar tzf junk", "tar xjf junk", "tar xf t.tar -C nodir", "tar cf t.tar a run\ntar xf t.tar zz\ntar xOf t.tar a\ntar tf t.tar a a zz\nrm t.tar", "tar cf t.tar --exclude=s d\ntar tf t.tar\nrm t.tar",
		"tar cf t.tar --exclude=*b d\ntar tf t.tar\nrm t.tar", "tar cf t.tar d run\ntar tf t.tar d/*b\ntar tf t.tar --wildcards *un\nrm t.tar", "tar --zz", "tar -Q", "tar cf t.tar a\ntar rf t.tar run\ntar rvf t.tar l\ntar tvf t.tar\nrm t.tar",
		"tar czf t.tgz a\ntar rf t.tgz run\nrm t.tgz", "tar cf t.tar -T list\ntar tf t.tar\nrm t.tar", "tar cf t.tar -C d s -C .. a\nrm t.tar", "tar cf t.tar -C d/s b\ntar tf t.tar\nrm t.tar", "tar cf t.tar d/../a\ntar tf t.tar\nrm t.tar",
		"tar cvf t.tar --no-recursion d\nrm t.tar", "tar cf t.tar -h l\ntar tvf t.tar\nrm t.tar", "tar -cf t.tar --owner=bob --group=staff:5 --mtime=@0 --mode=600 a\ntar tvf t.tar\ntar tvf t.tar --numeric-owner\nrm t.tar",
		"tar cf t.tar a l\ntar xkf t.tar\ntar xf t.tar --skip-old-files\nrm t.tar", "tar cf t.tar a\ntar xvf t.tar --one-top-level=top\nrm t.tar", "tar cf a.tar a.tar a\nrm a.tar", "tar cf t.tar 'sp ace'\ntar tvvf t.tar\nrm t.tar",
		"tar -c -v -f t.tar d\nrm t.tar", "tar cf t.tar e\ntar tvf t.tar\nrm t.tar", "tar acf t.tar.gz a\ngzip -t t.tar.gz\nrm t.tar.gz", "tar cf nodir/t.tar a", "tar xf junk", "tar tf /dev/null", "tar czf", "tar cf t.tar a\ntar cxf t.tar\nrm t.tar",
		"tar cf t.tar d --exclude d/s\nrm t.tar", "tar xz", "tar tf -",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: strings.Contains(run, "--zz")})
	}
	for _, c := range []struct{ name, archive string }{
		{"Outward", commandtest.BuildTar(t, tar.Header{Name: "../up"}, tar.Header{Name: "a/../../b"}, tar.Header{Name: "/tmp/atoll-abs"}, tar.Header{Name: "..", Typeflag: tar.TypeDir})},
		{"ThroughLinks", commandtest.BuildTar(t, tar.Header{Name: "ln", Typeflag: tar.TypeSymlink, Linkname: "/nowhere"}, tar.Header{Name: "ln/x"}, tar.Header{Name: "up", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "up/y"})},
		{"HardLinks", commandtest.BuildTar(t, tar.Header{Name: "hl", Typeflag: tar.TypeLink, Linkname: "/etc/none"}, tar.Header{Name: "f"}, tar.Header{Name: "g", Typeflag: tar.TypeLink, Linkname: "f"})},
		{"LinkOverFile", commandtest.BuildTar(t, tar.Header{Name: "f"}, tar.Header{Name: "f", Typeflag: tar.TypeSymlink, Linkname: "g"}, tar.Header{Name: "f"})},
		{"NoParents", commandtest.BuildTar(t, tar.Header{Name: "p/q/r"}, tar.Header{Name: "p/", Typeflag: tar.TypeDir, Mode: 0o700})},
		{"Cut", commandtest.BuildTar(t, tar.Header{Name: "f"}, tar.Header{Name: "g"})[:1536+600]},
		{"OddNames", commandtest.BuildTar(t, tar.Header{Name: "n\nl"}, tar.Header{Name: "b\\s"}, tar.Header{Name: strings.Repeat("long/", 40) + "f"})},
	} {
		for _, run := range []string{"tar tvf x.tar", "tar xvf x.tar -C out"} {
			cases = append(cases, commandtest.Case{Name: c.name + "/" + run, Run: run, Tree: []string{"out/", "x.tar=" + c.archive}, Times: true})
		}
	}
	commandtest.Compare(t, cases)
}

// TestTarCompressorEndsEarly writes more than a pipe holds to a program that reads nothing.
func TestTarCompressorEndsEarly(t *testing.T) {
	s := commandtest.New(t, "/work")
	s.Must(s.FS.WriteFile("/work/big", make([]byte, 1<<20), 0o644))
	for _, program := range []string{"true", "nosuch"} {
		if out := s.Exec("", "tar", "-I", program, "-cf", "y", "big"); out.Code != 2 {
			t.Errorf("-I %s: %+v, want status 2", program, out)
		}
	}
}

// TestTarStaysInItsDirectory extracts archives that try to leave it.
func TestTarStaysInItsDirectory(t *testing.T) {
	for name, archive := range map[string]string{
		"Dots":         commandtest.BuildTar(t, tar.Header{Name: "../../escape"}, tar.Header{Name: "x/../../../escape"}),
		"Absolute":     commandtest.BuildTar(t, tar.Header{Name: "/escape"}),
		"Link":         commandtest.BuildTar(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}, tar.Header{Name: "l/escape"}),
		"RelativeLink": commandtest.BuildTar(t, tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../../.."}, tar.Header{Name: "d/l/escape"}),
		"LinkToLink":   commandtest.BuildTar(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b/.."}, tar.Header{Name: "b", Typeflag: tar.TypeSymlink, Linkname: "."}, tar.Header{Name: "a/escape"}),
		"HardToLink":   commandtest.BuildTar(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/secret"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "l"}, tar.Header{Name: "h"}),
		"FileLink":     commandtest.BuildTar(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/secret"}, tar.Header{Name: "l"}),
	} {
		t.Run(name, func(t *testing.T) {
			s := commandtest.New(t, "/work")
			s.Must(s.FS.MkdirAll("/work/in/side", 0o755))
			s.Must(s.FS.WriteFile("/secret", []byte("kept"), 0o600))
			s.Exec(archive, "tar", "xf", "-", "-C", "in/side")
			for _, p := range []string{"/escape", "/work/escape", "/work/in/escape"} {
				if _, err := s.FS.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made: %v", p, err)
				}
			}
			if got := s.ReadFile("/secret"); got != "kept" {
				t.Errorf("the file outside holds %q", got)
			}
		})
	}
}

// FuzzTar extracts random archives: nothing may leave the directory.
func FuzzTar(f *testing.F) {
	f.Add([]byte(commandtest.BuildTar(f, tar.Header{Name: "a"}, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "../b"})))
	f.Add([]byte(commandtest.BuildTar(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}, tar.Header{Name: "l/x"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "l"})))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("BZh9"))
	s := commandtest.New(f, "/work")
	f.Fuzz(func(t *testing.T, archive []byte) {
		s.TB = t
		s.Must(s.FS.RemoveAll("/work"))
		s.Must(s.FS.MkdirAll("/work/in/side", 0o755))
		for _, args := range [][]string{{"tar", "tvf", "-"}, {"tar", "xf", "-", "-C", "in/side"}} {
			if got := s.Exec(string(archive), args...); got.Code == 134 {
				t.Fatalf("crashed: %s", got.Stderr)
			}
		}
		list, err := s.FS.ReadDir("/work/in")
		if err != nil || len(list) != 1 {
			t.Fatalf("in holds %v, %v", list, err)
		}
	})
}
