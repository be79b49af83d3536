package data

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const opensslUsage = `Usage: openssl COMMAND [OPTION]... [FILE]...

  dgst [-DIGEST] [-hex|-binary] [-r] [-c] [-hmac KEY] [-out FILE] [FILE...]
       DIGEST: md5, sha1, sha224, sha256 (default), sha384, sha512, sha512-224,
       sha512-256, sha3-224, sha3-256, sha3-384, sha3-512; also as a command
  enc -CIPHER [-e|-d] [-a [-A]] [-k PASSWORD|-pass SOURCE] [-pbkdf2]
      [-iter N] [-md DIGEST] [-S SALT] [-nosalt] [-K KEY -iv IV] [-nopad] [-p]
      [-in FILE] [-out FILE]
       CIPHER: aes-128, aes-192, aes-256 with -cbc, -ctr or -ecb; base64
  base64 [-d] [-A] [-in FILE] [-out FILE]
  rand [-hex|-base64] [-out FILE] COUNT
  version

SOURCE is pass:PASSWORD, env:NAME, file:NAME or stdin. Keys, certificates,
signatures and connections (genrsa, req, x509, s_client, ...) are not
supported: make them where they are used, outside the sandbox.
`

// digestAlgorithm is a digest with the name that openssl prints.
type digestAlgorithm struct {
	label string
	new   func() hash.Hash
}

// opensslDigests are the digests by their names in lower case.
var opensslDigests = map[string]digestAlgorithm{
	"md5":        {"MD5", md5.New},
	"sha1":       {"SHA1", sha1.New},
	"sha224":     {"SHA2-224", sha256.New224},
	"sha256":     {"SHA2-256", sha256.New},
	"sha384":     {"SHA2-384", sha512.New384},
	"sha512":     {"SHA2-512", sha512.New},
	"sha512-224": {"SHA2-512/224", sha512.New512_224},
	"sha512-256": {"SHA2-512/256", sha512.New512_256},
	"sha3-224":   {"SHA3-224", func() hash.Hash { return sha3.New224() }},
	"sha3-256":   {"SHA3-256", func() hash.Hash { return sha3.New256() }},
	"sha3-384":   {"SHA3-384", func() hash.Hash { return sha3.New384() }},
	"sha3-512":   {"SHA3-512", func() hash.Hash { return sha3.New512() }},
}

// opensslDigest returns the digest of a name; nil: none.
func opensslDigest(name string) (label string, f func() hash.Hash) {
	d := opensslDigests[strings.ToLower(name)]
	return d.label, d.new
}

func runOpenssl(p *kernel.Proc) int {
	if len(p.Args) < 2 {
		_, _ = p.Out().WriteString(opensslUsage) // Flush reports the error
		return 0
	}
	name, args := p.Args[1], p.Args[2:]
	if _, f := opensslDigest(name); f != nil {
		return runOpensslDigest(p, append([]string{"-" + name}, args...))
	}
	switch name {
	case "help":
		_, _ = p.Out().WriteString(opensslUsage) // likewise
		return 0
	case "version":
		_, _ = p.Out().WriteString("OpenSSL 3.0.19 (atoll)\n") // likewise
		return 0
	case "dgst":
		return runOpensslDigest(p, args)
	case "base64":
		return runOpensslEnc(p, append([]string{"-base64"}, args...))
	case "enc":
		return runOpensslEnc(p, args)
	case "rand":
		return runOpensslRand(p, args)
	case "genrsa", "genpkey", "rsa", "ec", "ecparam", "pkey", "pkeyutl", "rsautl", "req", "x509", "ca", "verify", "s_client", "s_server", "pkcs12", "cms", "smime", "passwd", "dhparam", "crl", "ocsp", "ts", "speed", "asn1parse", "list", "ciphers", "prime":
		return refuseOpenssl(p, name+" is not supported in a virtual sandbox: it has dgst, enc, base64 and rand; for keys and certificates use a driver with real processes")
	}
	if strings.HasPrefix(name, "aes") {
		return runOpensslEnc(p, append([]string{"-" + name}, args...))
	}
	return refuseOpenssl(p, "Invalid command '"+name+"'; type \"help\" for a list.")
}

func refuseOpenssl(p *kernel.Proc, text string) int {
	_ = p.Out().Flush()                      // the next write reports the error
	_, _ = p.Stderr.WriteString(text + "\n") // best effort
	return 1
}

// opensslArgs reads options. values names those that take one.
type opensslArgs struct {
	flags  map[string]bool
	values map[string]string
	rest   []string
}

func parseOpensslArgs(args []string, flags, values string) (a opensslArgs, bad string) {
	a = opensslArgs{map[string]bool{}, map[string]string{}, nil}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
		switch {
		case word == "-" || !strings.HasPrefix(word, "-"):
			a.rest = append(append(a.rest, word), args...)
			return a, ""
		case strings.Contains(" "+values+" ", " "+name+" "):
			if len(args) == 0 {
				return a, "Option -" + name + " needs a value"
			}
			a.values[name], args = args[0], args[1:]
		case strings.Contains(" "+flags+" ", " "+name+" "):
			a.flags[name] = true
		default:
			if _, f := opensslDigest(name); f == nil && !isCipher(name) {
				return a, "Unknown option or cipher: " + name
			}
			a.values["algorithm"] = name
		}
	}
	return a, ""
}

func isCipher(name string) bool {
	_, _, ok := parseCipher(name)
	return ok || name == "base64"
}

// opensslOutput runs f with the file of -out, or standard output.
func opensslOutput(p *kernel.Proc, name string, f func(w io.Writer) int) int {
	if name == "" {
		return f(p.Out())
	}
	h, err := p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return refuseOpenssl(p, "Can't open \""+name+"\" for writing, "+program.Reason(err))
	}
	code := f(h)
	if err := h.Close(); err != nil {
		return refuseOpenssl(p, name+": "+program.Reason(err))
	}
	return code
}

func runOpensslDigest(p *kernel.Proc, args []string) int {
	a, bad := parseOpensslArgs(args, "hex binary r c d", "hmac out")
	if bad != "" {
		return refuseOpenssl(p, "dgst: "+bad+"\ndgst: Use -help for summary.")
	}
	name := a.values["algorithm"]
	if name == "" {
		name = "sha256"
	}
	label, create := opensslDigest(name)
	if a.values["algorithm"] == "" {
		label = "SHA256"
	}
	if create == nil {
		return refuseOpenssl(p, "dgst: Unknown digest: "+name)
	}
	names := a.rest
	if len(names) == 0 {
		names = []string{""}
	}
	return opensslOutput(p, a.values["out"], func(w io.Writer) int {
		code := 0
		for _, file := range names {
			h := create()
			title := label
			if key, ok := a.values["hmac"]; ok {
				h, title = hmac.New(create, []byte(key)), "HMAC-"+label
			}
			if !hashOpenssl(p, h, file) {
				code = 1
				continue
			}
			_, _ = w.Write(formatDigest(a, h.Sum(nil), title, label, file)) // Flush or Close reports the error
		}
		return code
	})
}

// hashOpenssl hashes a file; "" is standard input.
func hashOpenssl(p *kernel.Proc, h hash.Hash, file string) bool {
	in := p.Stdin
	if file != "" {
		f, err := p.Open(file)
		if err != nil {
			refuseOpenssl(p, file+": "+program.Reason(err))
			return false
		}
		defer stream.Close(f)
		in = f
	}
	if err := stream.CopyCharged(p, h, in); err != nil {
		refuseOpenssl(p, "Read Error in "+file+": "+program.Reason(err))
		return false
	}
	return true
}

func formatDigest(a opensslArgs, sum []byte, title, label, file string) []byte {
	text := hex.EncodeToString(sum)
	switch {
	case a.flags["binary"]:
		return sum
	case a.flags["r"]:
		return []byte(text + " *" + orStdin(file) + "\n")
	case a.flags["c"]:
		text = ""
		for i, b := range sum {
			if i > 0 {
				text += ":"
			}
			text += fmt.Sprintf("%02x", b)
		}
	}
	return []byte(title + "(" + orStdin(file) + ")= " + text + "\n")
}

func orStdin(file string) string {
	if file == "" {
		return "stdin"
	}
	return file
}

func runOpensslRand(p *kernel.Proc, args []string) int {
	a, bad := parseOpensslArgs(args, "hex base64", "out rand")
	if a.values["algorithm"] == "base64" {
		a.flags["base64"] = true
	}
	if bad != "" {
		return refuseOpenssl(p, "rand: "+bad)
	}
	if len(a.rest) == 0 {
		return refuseOpenssl(p, "rand: a count of bytes is missing")
	}
	n, err := strconv.ParseInt(a.rest[0], 0, 64)
	if err != nil || n < 1 || len(a.rest) > 1 {
		return refuseOpenssl(p, "rand: Can't parse \""+strings.Join(a.rest, " ")+"\" as a number")
	}
	return opensslOutput(p, a.values["out"], func(w io.Writer) int {
		chunk := make([]byte, 48*64)
		var line []byte
		for n > 0 {
			b := chunk[:min(n, int64(len(chunk)))]
			p.Tick(1 + len(b)>>6)
			p.Rand(b)
			n -= int64(len(b))
			switch {
			case a.flags["hex"]:
				b = hex.AppendEncode(nil, b)
			case a.flags["base64"]:
				line = line[:0]
				for len(b) > 0 {
					k := min(48, len(b))
					line = append(base64.StdEncoding.AppendEncode(line, b[:k]), '\n')
					b = b[k:]
				}
				b = line
			}
			if _, err := w.Write(b); err != nil {
				return 1
			}
		}
		if a.flags["hex"] {
			_, _ = io.WriteString(w, "\n") // Flush or Close reports the error
		}
		return 0
	})
}

var errOpensslBase64 = errors.New("bad base64 input")

// decodeOpensslBase64 decodes lines; it removes the white space in data.
func decodeOpensslBase64(data []byte) ([]byte, error) {
	data = slices.DeleteFunc(data, func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' })
	out := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Decode(out, data)
	if err != nil {
		return out[:n], errOpensslBase64
	}
	return out[:n], nil
}

// encodeOpensslBase64 encodes in lines of 64 characters, or in one.
func encodeOpensslBase64(data []byte, oneLine bool) []byte {
	if oneLine {
		return base64.StdEncoding.AppendEncode(nil, data)
	}
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(data))+len(data)/48+1)
	for len(data) > 0 {
		k := min(48, len(data))
		out = append(base64.StdEncoding.AppendEncode(out, data[:k]), '\n')
		data = data[k:]
	}
	return out
}
