package main

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
)

// memory is the memory of the program: address space that the system backs as it is used. Each growth is a call, so that
// the sandbox is charged before.
type memory struct {
	h *host
	b []byte
}

// allocate returns the memory of the program.
func (h *host) allocate(_, limit uint64) experimental.LinearMemory {
	b, err := reserve(int(min(limit, wasi.MaxMemory)))
	if err != nil {
		panic(err) // ends the program
	}
	h.memory = &memory{h, b}
	return h.memory
}

// Reallocate returns the memory with a new size, or nil if the sandbox does not have that much.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.b)) {
		return nil
	}
	if m.h.begun {
		if a := m.h.call(wasi.Call{Op: wasi.OpGrow, Args: []int64{int64(size)}}); a.Errno != 0 {
			return nil
		}
	}
	m.h.size = int64(size)
	return m.b[:size:len(m.b)]
}

// Free does nothing: the process ends.
func (*memory) Free() {}
