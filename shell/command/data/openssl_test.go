package data_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestOpenssl compares digests, ciphers and base64 with those of OpenSSL 3.0.
func TestOpenssl(t *testing.T) {
	tree := []string{"f=hello world\n", "long=" + commandtest.CountTo(200), "empty=", "b64=aGVsbG8gd29ybGQK\n", "pw=secret\nignored\n"}
	var cases []commandtest.Case
	for _, d := range []string{"md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256", "sha3-256", "sha3-512"} {
		cases = append(cases, commandtest.Cases(tree, "input", "openssl dgst -"+d+" f", "openssl "+d, "openssl dgst -"+d+" -hmac key long empty")...)
	}
	for _, c := range []string{"aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "aes-256-ctr", "aes-128-ecb", "aes256"} {
		cases = append(cases, commandtest.Cases(tree, "secret text",
			"openssl enc -"+c+" -pbkdf2 -pass pass:x -S 0011223344556677 -a",
			"openssl enc -"+c+" -K 00112233445566778899aabbccddeeff -iv 0102 -in long -a -A",
			"openssl enc -"+c+" -pbkdf2 -pass pass:x -in long -out enc\nopenssl enc -"+c+" -d -pbkdf2 -pass pass:x -in enc -out dec\nrm enc",
			"openssl enc -"+c+" -pbkdf2 -iter 5 -md sha512 -pass file:pw -nosalt -in f -p -a")...)
	}
	cases = append(cases, commandtest.Cases(tree, "some input",
		"openssl dgst f", "openssl dgst -r f long", "openssl dgst -c f", "openssl dgst -binary f", "openssl dgst -out sum f", "openssl dgst -sha256 -hex f", "openssl base64 -in long", "openssl base64", "openssl base64 -A -in long", "openssl base64 -d -in b64", "openssl enc -base64 -in f", "openssl enc -d -base64 -in b64",
		"openssl enc -aes-256-cbc -nosalt -pbkdf2 -k word -in f -a -out x\nopenssl enc -d -aes-256-cbc -nosalt -pbkdf2 -k word -in x -a", "openssl enc -aes-256-cbc -nosalt -k word -in f -a", "openssl aes-256-cbc -nosalt -k word -md md5 -in f -a",
	)...)
	for _, line := range []string{"openssl dgst nofile", "openssl enc -aes-256-cbc -d -pbkdf2 -k x -in f", "openssl nonsense", "openssl enc -nonsense", "openssl rand -hex 0", "openssl enc -aes-128-cbc -K zz -iv 00 -in f"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Loose: true})
	}
	for i := range cases {
		cases[i].Rare = true
	}
	commandtest.Compare(t, cases)
}

// TestOpensslRand checks the length of random bytes, and that keys are refused with what to use instead.
func TestOpensslRand(t *testing.T) {
	s := commandtest.New(t, "/w")
	for line, want := range map[string]int{"openssl rand -hex 16": 33, "openssl rand 100": 100, "openssl rand -base64 32": 45} {
		if o := s.Exec("", commandtest.SplitWords(line)...); o.Code != 0 || len(o.Stdout) != want {
			t.Errorf("%s: %d bytes, %+v", line, len(o.Stdout), o)
		}
	}
	if o := s.Exec("", "openssl", "genrsa", "2048"); o.Code != 1 || o.Stderr == "" {
		t.Errorf("%+v", o)
	}
	for _, line := range []string{"openssl rand 9000000000000", "openssl enc -aes-256-cbc -pbkdf2 -iter 2000000000 -k x -in /dev/null", "openssl base64 -in /dev/zero", "openssl dgst /dev/zero", "openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero"} {
		commandtest.RunHostile(t, s, "", commandtest.SplitWords(line)...)
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
