package data

import (
	"encoding/binary"
	"math/bits"
)

// blake2b is the hash function of RFC 7693, without a key.
type blake2b struct {
	h    [8]uint64
	n    uint64 // bytes compressed
	buf  [128]byte
	used int
	size int
}

var blakeIV = [8]uint64{
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
}

var blakeSigma = [10][16]byte{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}

// newBlake2b returns a hash of size bytes, 1 to 64.
func newBlake2b(size int) *blake2b {
	b := &blake2b{h: blakeIV, size: size}
	b.h[0] ^= 0x01010000 ^ uint64(size)
	return b
}

func (b *blake2b) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if b.used == len(b.buf) {
			b.n += 128
			b.compressBlock(false)
			b.used = 0
		}
		c := copy(b.buf[b.used:], p)
		b.used += c
		p = p[c:]
	}
	return n, nil
}

// Sum returns the hash of the written bytes. No bytes may be written after it.
func (b *blake2b) Sum() []byte {
	b.n += uint64(b.used)
	clear(b.buf[b.used:])
	b.compressBlock(true)
	var out []byte
	for _, h := range b.h {
		out = binary.LittleEndian.AppendUint64(out, h)
	}
	return out[:b.size]
}

// compressBlock updates the state with the buffered block; last marks the final one.
func (b *blake2b) compressBlock(last bool) {
	var v, m [16]uint64
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(b.buf[8*i:])
	}
	copy(v[:8], b.h[:])
	copy(v[8:], blakeIV[:])
	v[12] ^= b.n
	if last {
		v[14] = ^v[14]
	}
	mix := func(x, y, z, w int, p, q uint64) {
		v[x] += v[y] + p
		v[w] = bits.RotateLeft64(v[w]^v[x], -32)
		v[z] += v[w]
		v[y] = bits.RotateLeft64(v[y]^v[z], -24)
		v[x] += v[y] + q
		v[w] = bits.RotateLeft64(v[w]^v[x], -16)
		v[z] += v[w]
		v[y] = bits.RotateLeft64(v[y]^v[z], -63)
	}
	for r := range 12 {
		s := &blakeSigma[r%10]
		for i := range 4 {
			mix(i, 4+i, 8+i, 12+i, m[s[2*i]], m[s[2*i+1]])
		}
		for i := range 4 {
			mix(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4, m[s[8+2*i]], m[s[9+2*i]])
		}
	}
	for i := range b.h {
		b.h[i] ^= v[i] ^ v[8+i]
	}
}
