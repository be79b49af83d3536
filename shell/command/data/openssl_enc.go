package data

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// encJob is one run of openssl enc.
type encJob struct {
	p       *kernel.Proc
	a       opensslArgs
	bits    int
	mode    string
	decrypt bool
	salt    []byte // nil: none
	key, iv []byte
}

// parseCipher parses the name of a cipher, such as aes-256-cbc or aes256.
func parseCipher(name string) (bits int, mode string, ok bool) {
	name = strings.ToLower(name)
	rest, ok := strings.CutPrefix(name, "aes")
	if !ok {
		return 0, "", false
	}
	size, mode, _ := strings.Cut(strings.TrimPrefix(rest, "-"), "-")
	if mode == "" {
		mode = "cbc"
	}
	bits, err := strconv.Atoi(size)
	return bits, mode, err == nil && (bits == 128 || bits == 192 || bits == 256) && (mode == "cbc" || mode == "ctr" || mode == "ecb")
}

func runOpensslEnc(p *kernel.Proc, args []string) int {
	a, bad := parseOpensslArgs(args, "e d a base64 A salt nosalt pbkdf2 nopad p P v", "in out k pass kfile iter md S K iv bufsize")
	if bad == "" && len(a.rest) > 0 {
		bad = "Extra option: \"" + a.rest[0] + "\""
	}
	if bad != "" {
		return refuseOpenssl(p, "enc: "+bad+"\nenc: Use -help for summary.")
	}
	j := &encJob{p: p, a: a, decrypt: a.flags["d"]}
	in := p.Stdin
	if name := a.values["in"]; name != "" {
		h, err := p.Open(name)
		if err != nil {
			return refuseOpenssl(p, "Can't open \""+name+"\" for reading, "+program.Reason(err))
		}
		defer stream.Close(h)
		in = h
	}
	var ok bool
	if name := a.values["algorithm"]; name != "" {
		if j.bits, j.mode, ok = parseCipher(name); !ok {
			return refuseOpenssl(p, "enc: Unknown cipher: "+name+"; aes-128, aes-192 and aes-256 with -cbc, -ctr and -ecb are supported")
		}
	}
	password, code := j.password()
	if code != 0 {
		return code
	}
	data, err := p.ReadAll(in)
	if err != nil {
		return refuseOpenssl(p, "error reading input file: "+program.Reason(err))
	}
	p.Alloc(4 * int64(len(data)))
	p.Tick(len(data) >> 3)
	out, refusal := j.convert(data, password)
	if refusal != "" {
		return refuseOpenssl(p, refusal)
	}
	return opensslOutput(p, a.values["out"], func(w io.Writer) int {
		if j.a.flags["p"] || j.a.flags["P"] {
			j.printKey(w)
		}
		if _, err := w.Write(out); err != nil {
			return refuseOpenssl(p, "error writing output file: "+program.Reason(err))
		}
		return 0
	})
}

func (j *encJob) warn(text string) { _, _ = io.WriteString(j.p.Stderr, text+"\n") } // best effort

func (j *encJob) printKey(w io.Writer) {
	text := ""
	if j.salt != nil {
		text = "salt=" + strings.ToUpper(hex.EncodeToString(j.salt)) + "\n"
	}
	text += "key=" + strings.ToUpper(hex.EncodeToString(j.key)) + "\n"
	if j.mode != "ecb" {
		text += "iv =" + strings.ToUpper(hex.EncodeToString(j.iv)) + "\n"
	}
	_, _ = io.WriteString(w, text) // the next write reports the error
}

// password returns the password that the options name.
func (j *encJob) password() (string, int) {
	if k, ok := j.a.values["k"]; ok {
		return k, 0
	}
	source := j.a.values["pass"]
	if name, ok := j.a.values["kfile"]; ok {
		source = "file:" + name
	}
	if j.mode == "" || j.a.values["K"] != "" {
		return "", 0
	}
	kind, value, _ := strings.Cut(source, ":")
	switch kind {
	case "pass":
		return value, 0
	case "env":
		text, ok := j.p.LookupEnv(value)
		if !ok {
			return "", refuseOpenssl(j.p, "No environment variable "+value+"\nError getting password")
		}
		return text, 0
	case "file":
		b, err := j.p.ReadFile(value)
		if err != nil {
			return "", refuseOpenssl(j.p, "Can't open file "+value+": "+program.Reason(err)+"\nError getting password")
		}
		line, _, _ := strings.Cut(string(b), "\n")
		return line, 0
	case "stdin":
		lines := stream.NewLineReader(j.p, j.p.Stdin, '\n')
		return strings.TrimSuffix(string(lines.Next()), "\n"), 0
	}
	return "", refuseOpenssl(j.p, "there is no terminal to ask for a password on: use -pass pass:PASSWORD, env:NAME or file:NAME")
}

// convert encrypts or decrypts, and encodes or decodes base64.
func (j *encJob) convert(data []byte, password string) (out []byte, refusal string) {
	encoded := j.a.flags["a"] || j.a.flags["base64"]
	if j.decrypt && encoded {
		var err error
		if data, err = decodeOpensslBase64(data); err != nil && j.mode == "" {
			return data, "" // as openssl does, without an error
		}
	}
	if j.mode != "" {
		if data, refusal = j.crypt(data, password); refusal != "" {
			return nil, refusal
		}
	}
	if !j.decrypt && encoded {
		data = encodeOpensslBase64(data, j.a.flags["A"])
	}
	return data, ""
}

const saltMark = "Salted__"

func (j *encJob) crypt(data []byte, password string) (out []byte, refusal string) {
	if data, refusal = j.deriveKey(data, password); refusal != "" {
		return nil, refusal
	}
	block, err := aes.NewCipher(j.key)
	if err != nil {
		return nil, "enc: " + err.Error()
	}
	prefix := []byte(nil)
	if !j.decrypt && j.salt != nil && j.a.values["S"] == "" {
		prefix = append([]byte(saltMark), j.salt...)
	}
	if j.mode == "ctr" {
		out = make([]byte, len(data))
		cipher.NewCTR(block, j.iv).XORKeyStream(out, data)
		return append(prefix, out...), ""
	}
	if j.decrypt {
		return j.decryptBlocks(block, data)
	}
	if !j.a.flags["nopad"] {
		n := aes.BlockSize - len(data)%aes.BlockSize
		data = append(bytes.Clone(data), bytes.Repeat([]byte{byte(n)}, n)...)
	}
	if len(data)%aes.BlockSize != 0 {
		return nil, "bad encrypt: data not multiple of block length"
	}
	out = make([]byte, len(data))
	if j.mode == "cbc" {
		cipher.NewCBCEncrypter(block, j.iv).CryptBlocks(out, data)
	} else {
		for i := 0; i < len(data); i += aes.BlockSize {
			block.Encrypt(out[i:], data[i:])
		}
	}
	return append(prefix, out...), ""
}

func (j *encJob) decryptBlocks(block cipher.Block, data []byte) ([]byte, string) {
	if len(data)%aes.BlockSize != 0 || len(data) == 0 && !j.a.flags["nopad"] {
		return nil, "bad decrypt: wrong final block length"
	}
	out := make([]byte, len(data))
	if j.mode == "cbc" {
		cipher.NewCBCDecrypter(block, j.iv).CryptBlocks(out, data)
	} else {
		for i := 0; i < len(data); i += aes.BlockSize {
			block.Decrypt(out[i:], data[i:])
		}
	}
	if j.a.flags["nopad"] {
		return out, ""
	}
	n := int(out[len(out)-1])
	if n == 0 || n > aes.BlockSize || !bytes.Equal(out[len(out)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, "bad decrypt: is it the same password, cipher, -md, -pbkdf2 and -iter?"
	}
	return out[:len(out)-n], ""
}

// deriveKey sets key and initialization vector, and returns the data without the salt before it.
func (j *encJob) deriveKey(data []byte, password string) (rest []byte, refusal string) {
	size, ivSize := j.bits/8, aes.BlockSize
	if text := j.a.values["K"]; text != "" {
		var ok bool
		if j.key, ok = j.parseHex(text, size); !ok {
			return nil, "invalid hex key value"
		}
		if j.mode == "ecb" && j.a.values["iv"] != "" {
			j.warn("warning: iv not used by this cipher")
			return data, ""
		}
		if j.iv, ok = j.parseHex(j.a.values["iv"], ivSize); !ok || j.a.values["iv"] == "" && j.mode != "ecb" {
			return nil, "iv undefined"
		}
		return data, ""
	}
	if !j.a.flags["nosalt"] {
		if data, refusal = j.findSalt(data); refusal != "" {
			return nil, refusal
		}
	}
	name := j.a.values["md"]
	if name == "" {
		name = "sha256"
	}
	_, create := opensslDigest(name)
	if create == nil {
		return nil, "enc: Unknown digest: " + name
	}
	iterations, err := 10000, error(nil)
	if text, ok := j.a.values["iter"]; ok {
		if iterations, err = strconv.Atoi(text); err != nil || iterations < 1 {
			return nil, "enc: Non-positive number \"" + text + "\" for option -iter"
		}
	}
	var both []byte
	if _, ok := j.a.values["iter"]; ok || j.a.flags["pbkdf2"] {
		both = j.pbkdf2(create, []byte(password), iterations, size+ivSize)
	} else {
		_, _ = io.WriteString(j.p.Stderr, "*** WARNING : deprecated key derivation used.\nUsing -iter or -pbkdf2 would be better.\n") // best effort
		both = bytesToKey(create, []byte(password), j.salt, size+ivSize)
	}
	j.key, j.iv = both[:size], both[size:]
	if text, ok := j.a.values["iv"]; ok {
		if j.iv, ok = j.parseHex(text, ivSize); !ok {
			return nil, "invalid hex iv value"
		}
	}
	return data, ""
}

func (j *encJob) findSalt(data []byte) ([]byte, string) {
	if text, ok := j.a.values["S"]; ok {
		if j.salt, ok = j.parseHex(text, 8); !ok {
			return nil, "invalid hex salt value"
		}
		return data, ""
	}
	if !j.decrypt {
		j.salt = make([]byte, 8)
		j.p.Rand(j.salt)
		return data, ""
	}
	if len(data) < 16 || string(data[:8]) != saltMark {
		return nil, "bad magic number"
	}
	j.salt = data[8:16]
	return data[16:], ""
}

// parseHex parses hexadecimal digits; missing ones at the end are zeros.
func (j *encJob) parseHex(text string, size int) ([]byte, bool) {
	if len(text) > 2*size {
		return nil, false
	}
	if len(text) < 2*size && text != "" {
		j.warn("hex string is too short, padding with zero bytes to length")
	}
	b, err := hex.DecodeString(text + strings.Repeat("0", 2*size-len(text)))
	return b, err == nil
}

// bytesToKey derives a key as EVP_BytesToKey does with one iteration.
func bytesToKey(create func() hash.Hash, password, salt []byte, size int) []byte {
	var out, last []byte
	for len(out) < size {
		h := create()
		_, _ = h.Write(last)     // a hash takes everything
		_, _ = h.Write(password) // likewise
		_, _ = h.Write(salt)     // likewise
		last = h.Sum(nil)
		out = append(out, last...)
	}
	return out[:size]
}

// pbkdf2 derives a key; each iteration is charged.
func (j *encJob) pbkdf2(create func() hash.Hash, password []byte, iterations, size int) []byte {
	mac := hmac.New(create, password)
	var out []byte
	for block := uint32(1); len(out) < size; block++ {
		mac.Reset()
		_, _ = mac.Write(j.salt)                                    // a hash takes everything
		_, _ = mac.Write(binary.BigEndian.AppendUint32(nil, block)) // likewise
		sum := mac.Sum(nil)
		total := bytes.Clone(sum)
		for range iterations - 1 {
			j.p.Tick(8)
			mac.Reset()
			_, _ = mac.Write(sum) // likewise
			sum = mac.Sum(sum[:0])
			for i, b := range sum {
				total[i] ^= b
			}
		}
		out = append(out, total...)
	}
	return out[:size]
}
