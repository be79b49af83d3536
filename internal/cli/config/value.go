package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseSize reads 1048576, 64k, 100m, 100MB, 1GiB; all units are powers of
// 1024.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bkmgtie ")
	unit := strings.TrimSpace(strings.ToLower(text)[len(digits):])
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || n <= 0 || n*float64(int64(1)<<shift) > 1<<60 {
		return 0, fmt.Errorf("a size is a number above 0 with k, m, g or t, like 64m")
	}
	return int64(n * float64(int64(1)<<shift)), nil
}

// parsePrefix reads an address, or a range of addresses, like 10.0.0.0/8.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.Is4In6() {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() || p.Masked() != p {
		return p, fmt.Errorf("must be an address or a range of addresses, like 10.0.0.0/8")
	}
	return p, nil
}
