package git

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
)

// verifyPacks is git verify-pack: it reads all objects of packs, and with -v lists them.
func (c *call) verifyPacks() error {
	failed := false
	for _, name := range append(slices.Clone(c.args), c.paths...) {
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".idx"), ".pack")
		err := c.verifyPack(base)
		if err != nil {
			failed = true
			_, _ = fmt.Fprintf(c.p.Stderr, "%v\n", err) // best effort
		}
		if c.has("-v", "--verbose") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s.pack: %s\n", base, map[bool]string{true: "ok", false: "bad"}[err == nil]) // Flush reports the error
		}
	}
	if failed {
		return &failure{1, ""}
	}
	return nil
}

// verifyPack reads all objects of a pack.
func (c *call) verifyPack(base string) error {
	k := c.openPack(c.p.Path(base))
	if k == nil {
		return newFatal("Cannot open existing pack idx file for '%s.idx'", base)
	}
	c.p.Alloc(int64(k.count) * 96)
	defer func() { c.p.Free(int64(k.count)*96 + int64(cap(k.index))) }()
	if _, err := k.seek(c.p, 0); err != nil {
		return err
	}
	defer func() { _ = k.h.Close() }() // it was only read
	size, err := k.h.Seek(-20, io.SeekEnd)
	if err != nil {
		return err
	}
	sum := make([]byte, 20)
	if _, err := io.ReadFull(k.h, sum); err != nil || !bytes.Equal(sum, k.index[len(k.index)-40:][:20]) {
		return newFatal("packfile %s.pack does not match its index", base)
	}
	k.in.at = -1
	places, numbers := make([]int64, k.count), make(map[int64]int, k.count)
	for n := range k.count {
		c.p.Tick(2)
		places[n] = k.offsetAt(n)
		numbers[places[n]] = n
	}
	slices.Sort(places)
	depths := make(map[int64]int)
	var chains []int
	for n, at := range places {
		c.p.Tick(4)
		i := id(hex.EncodeToString(k.nameAt(numbers[at])))
		in, err := k.seek(c.p, at)
		if err != nil {
			return err
		}
		h, err := in.readHead()
		if err != nil {
			return err
		}
		kind, b, err := c.readPacked(k, at, i)
		if err != nil {
			return err
		}
		same := hashObject(c.p, kind, b) == i
		if c.release(b); !same {
			return newFatal("packed %s from %s.pack is corrupt", i, base)
		}
		end := size
		if n+1 < len(places) {
			end = places[n+1]
		}
		tail := ""
		if h.kind == packRefDelta {
			h.base = k.find(h.ref)
		}
		if h.kind >= packOfsDelta {
			depths[at] = depths[h.base] + 1
			tail = fmt.Sprintf(" %d %x", depths[at], k.nameAt(numbers[h.base]))
		}
		for len(chains) <= depths[at] {
			chains = append(chains, 0)
		}
		chains[depths[at]]++
		if c.has("-v", "--verbose") {
			_, _ = fmt.Fprintf(c.p.Out(), "%s %-6s %d %d %d%s\n", i, kind, h.size, end-at, at, tail) // Flush reports the error, as of all writes
		}
	}
	for depth, n := range chains {
		if n == 0 || !c.has("-v", "--verbose", "-s", "--stat-only") {
			continue
		}
		head := "non delta: "
		if depth > 0 {
			head = fmt.Sprintf("chain length = %d: ", depth)
		}
		plural := map[bool]string{true: "s"}[n > 1]
		_, _ = fmt.Fprintf(c.p.Out(), "%s%d object%s\n", head, n, plural)
	}
	return nil
}
