package ext4

import (
	"encoding/binary"
	"hash/crc32"
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is CRC-32C as ext4 has it: begun with what went before, and not inverted.
func sum(crc uint32, b []byte) uint32 { return ^crc32.Update(^crc, castagnoli, b) }

func sum32(crc, v uint32) uint32 { return sum(crc, le.AppendUint32(nil, v)) }

// seal writes a checksum over all before it into the last four bytes.
func seal(seed uint32, b []byte) {
	n := len(b) - 4
	le.PutUint32(b[n:], sum(seed, b[:n]))
}

// sealDesc writes a group descriptor's checksum.
func sealDesc(seed uint32, group int64, d []byte) {
	le.PutUint16(d[0x1e:], 0)
	le.PutUint16(d[0x1e:], uint16(sum(sum32(seed, uint32(group)), d)))
}

// putHalves and halves are of a number whose halves lie apart.
func putHalves(b []byte, low, high int, v uint64) {
	le.PutUint32(b[low:], uint32(v))
	le.PutUint32(b[high:], uint32(v>>32))
}

func halves(b []byte, low, high int) int64 {
	return int64(le.Uint32(b[low:])) | int64(le.Uint32(b[high:]))<<32
}
