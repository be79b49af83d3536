package ext4

import (
	"encoding/binary"
	"hash/crc32"
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum continues a CRC-32C in the form of ext4, which is not inverted.
func checksum(crc uint32, b []byte) uint32 { return ^crc32.Update(^crc, castagnoli, b) }

func checksum32(crc, v uint32) uint32 { return checksum(crc, le.AppendUint32(nil, v)) }

// writeChecksum writes a checksum of a block into its last four bytes.
func writeChecksum(seed uint32, b []byte) {
	n := len(b) - 4
	le.PutUint32(b[n:], checksum(seed, b[:n]))
}

// writeDescChecksum writes the checksum of a group descriptor.
func writeDescChecksum(seed uint32, group int64, d []byte) {
	le.PutUint16(d[0x1e:], 0)
	le.PutUint16(d[0x1e:], uint16(checksum(checksum32(seed, uint32(group)), d)))
}

// putHalves writes a number whose halves are apart; readHalves reads it.
func putHalves(b []byte, low, high int, v uint64) {
	le.PutUint32(b[low:], uint32(v))
	le.PutUint32(b[high:], uint32(v>>32))
}

func readHalves(b []byte, low, high int) int64 {
	return int64(le.Uint32(b[low:])) | int64(le.Uint32(b[high:]))<<32
}
