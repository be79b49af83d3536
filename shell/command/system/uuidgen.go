package system

import (
	"encoding/hex"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const uuidgenUsage = `Usage: uuidgen [options]
Create a new UUID value.

  -r, --random   generate random-based uuid (the default)
  -t, --time     generate time-based uuid
  -C, --count NUM  generate more uuids in loop
      --help     display this help and exit
`

func runUuidgen(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{{Short: 'r', Long: "random"}, {Short: 't', Long: "time"}, {Short: 'C', Long: "count", Arg: option.Required}}}.Parse(p)
	if !ok {
		return 1
	}
	count, version := int64(1), byte(4)
	for _, o := range opts {
		switch o.Key {
		case 't':
			version = 1
		case 'C':
			n, fault := number.ParseSize(o.Value, "")
			if fault != number.Valid {
				p.Errorf("Cannot parse count: %s", quoting.QuoteName(o.Value))
				return 1
			}
			count = n
		}
	}
	for range count {
		var b [16]byte
		p.Rand(b[:])
		if version == 1 {
			t := uint64(p.Now().UnixNano()/100) + 0x01b21dd213814000
			b[0], b[1], b[2], b[3] = byte(t>>24), byte(t>>16), byte(t>>8), byte(t)
			b[4], b[5], b[6], b[7] = byte(t>>40), byte(t>>32), byte(t>>56), byte(t>>48)
		}
		b[6] = b[6]&0x0f | version<<4
		b[8] = b[8]&0x3f | 0x80
		h := hex.EncodeToString(b[:])
		_, _ = p.Out().WriteString(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + "\n") // Flush reports the error
		p.Tick(2)
	}
	return 0
}
