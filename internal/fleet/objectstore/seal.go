package objectstore

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// A sealed object is a header and chunks of 64 KiB, each encrypted with AES-256-GCM. The nonce of a chunk is its
// number, and whether it is the last one: chunks can't be left out, repeated, reordered or cut off. Each object has a
// key of its own, so that numbers are no nonces twice. The place of the object is the associated data of all chunks.

// SealKeySize is the length of a key of sealed objects in bytes.
const SealKeySize = 32

const (
	sealHeader = "atoll sealed object 1\n"
	sealChunk  = 64 << 10
)

// NewSealKey returns a random key, for one object.
func NewSealKey() []byte {
	key := make([]byte, SealKeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// chunkCipher encrypts and decrypts the chunks of one object.
type chunkCipher struct {
	aead  cipher.AEAD
	place []byte
	n     uint64 // number of the next chunk
}

func newChunkCipher(key []byte, place string) (chunkCipher, error) {
	if len(key) != SealKeySize {
		return chunkCipher{}, fmt.Errorf("%w: a key of sealed objects has %d bytes, not %d", atoll.ErrInvalid, SealKeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return chunkCipher{}, err
	}
	aead, err := cipher.NewGCM(block)
	return chunkCipher{aead: aead, place: []byte(sealHeader + place)}, err
}

// nonce returns the nonce of the next chunk.
func (c *chunkCipher) nonce(last bool) []byte {
	b := make([]byte, c.aead.NonceSize())
	binary.BigEndian.PutUint64(b[:8], c.n)
	c.n++
	if last {
		b[len(b)-1] = 1
	}
	return b
}

// Sealer reads from another reader and encrypts.
type Sealer struct {
	c      chunkCipher
	from   *bufio.Reader
	plain  []byte
	sealed []byte
	ready  []byte // of sealed, not read yet
	err    error  // after ready
}

// NewSealer returns a reader that seals a stream for a place, with a key that is for this object only.
func NewSealer(from io.Reader, key []byte, place string) (*Sealer, error) {
	c, err := newChunkCipher(key, place)
	if err != nil {
		return nil, err
	}
	return &Sealer{c: c, from: bufio.NewReaderSize(from, sealChunk), plain: make([]byte, sealChunk), ready: []byte(sealHeader)}, nil
}

// Read reads the sealed stream.
func (s *Sealer) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.sealChunk()
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// sealChunk seals the next chunk.
func (s *Sealer) sealChunk() {
	n, err := io.ReadFull(s.from, s.plain)
	last := false
	if err == nil || err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull does not wrap it
		_, err = s.from.Peek(1) // a stream can itself fail with io.ErrUnexpectedEOF
	}
	if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		last, s.err = true, io.EOF
	} else if err != nil {
		s.err = err
		return
	}
	s.sealed = s.c.aead.Seal(s.sealed[:0], s.c.nonce(last), s.plain[:n], s.c.place)
	s.ready = s.sealed
}

// errTampered is the error of a sealed object that was changed.
var errTampered = fmt.Errorf("%w: the object was changed, damaged or exchanged since it was stored", atoll.ErrState)

// Opener decrypts a sealed object. It returns only bytes that were sealed with the key for the place, and io.EOF only at
// the end of all of them.
type Opener struct {
	c      chunkCipher
	from   *bufio.Reader
	sealed []byte
	plain  []byte
	ready  []byte // of plain, not read yet
	begun  bool
	err    error
}

// NewOpener returns a reader of a sealed stream.
func NewOpener(from io.Reader, key []byte, place string) (*Opener, error) {
	c, err := newChunkCipher(key, place)
	if err != nil {
		return nil, err
	}
	return &Opener{c: c, from: bufio.NewReaderSize(from, 2*sealChunk), sealed: make([]byte, sealChunk+c.aead.Overhead()), plain: make([]byte, 0, sealChunk)}, nil
}

// Read reads the plain stream.
func (o *Opener) Read(p []byte) (int, error) {
	for len(o.ready) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		o.openChunk()
	}
	n := copy(p, o.ready)
	o.ready = o.ready[n:]
	return n, nil
}

// openChunk opens the next chunk.
func (o *Opener) openChunk() {
	if !o.begun {
		o.begun = true
		head := make([]byte, len(sealHeader))
		if _, err := io.ReadFull(o.from, head); err != nil || string(head) != sealHeader {
			o.err = sourceError(err)
			return
		}
	}
	n, err := io.ReadFull(o.from, o.sealed)
	if err == nil || err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull does not wrap it
		_, err = o.from.Peek(1)
	}
	last := err == io.EOF //nolint:errorlint // io.Reader's contract: EOF itself is the end
	if err != nil && !last {
		o.err = err
		return
	}
	plain, err := o.c.aead.Open(o.plain, o.c.nonce(last), o.sealed[:n], o.c.place)
	if err != nil {
		o.err = errTampered
		return
	}
	o.ready = plain
	if last {
		o.err = io.EOF
	}
}

// sourceError returns the error of a source that failed, or errTampered if it merely ended.
func sourceError(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull does not wrap them
		return errTampered
	}
	return err
}
