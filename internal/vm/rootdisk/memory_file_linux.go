package rootdisk

import (
	"slices"

	"github.com/atoll-sandbox/atoll/internal/vm/ext4"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// memoryFile is a sparse file in memory.
type memoryFile map[int64][]byte

const pageSize = ext4.BlockSize

func (m memoryFile) WriteAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		p := m[where/pageSize]
		if p == nil {
			p = make([]byte, pageSize)
			m[where/pageSize] = p
		}
		n += copy(p[where%pageSize:], b[n:])
	}
	return n, nil
}

func (m memoryFile) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		part := b[n:min(len(b), n+int(pageSize-where%pageSize))]
		clear(part)
		if p := m[where/pageSize]; p != nil {
			copy(part, p[where%pageSize:])
		}
		n += len(part)
	}
	return n, nil
}

// listPatches returns the written pages before an offset, in order.
func (m memoryFile) listPatches(end int64) (list []qcow2.Patch) {
	for n, p := range m {
		if n*pageSize < end {
			list = append(list, qcow2.Patch{Offset: n * pageSize, Data: p})
		}
	}
	slices.SortFunc(list, func(a, b qcow2.Patch) int { return int((a.Offset - b.Offset) / pageSize) })
	return list
}
