// Package datetime parses and formats dates as the GNU tools do.
package datetime

import (
	"encoding/binary"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// LocalZone returns the time zone that TZ names, or UTC.
func LocalZone(p *kernel.Proc) *time.Location { return loadZone(p.Getenv("TZ")) }

// loadZone returns a zone by its name or its POSIX rule, such as "CET-1CEST,M3.5.0,M10.5.0/3".
func loadZone(name string) *time.Location {
	name = strings.TrimPrefix(name, ":")
	if name == "" || name == "UTC" || name == "UTC0" || len(name) > 100 {
		return time.UTC
	}
	if name != "Local" {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc
		}
	}
	if loc, err := time.LoadLocationFromTZData(name, compileRule(name)); err == nil && !strings.Contains(name, "\n") {
		if n, _ := time.Unix(0, 0).In(loc).Zone(); n != "???" {
			return loc
		}
	}
	letters := 0
	for letters < len(name) && character.IsLetter(name[letters]) {
		letters++
	}
	if letters >= 3 { // a rule that is none is its name, at no distance
		return time.FixedZone(name[:letters], 0)
	}
	return time.UTC
}

// compileRule returns zone data, as in a zoneinfo file, with only a POSIX rule.
func compileRule(rule string) []byte {
	var b []byte
	for range 2 { // the old part and the new one
		b = append(b, "TZif2"...)
		b = append(b, make([]byte, 15)...)
		for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // isut, isstd, leap, time, type, char counts
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = append(b, make([]byte, 6)...) // a type: no offset, no summer time; its name shows that the rule is none
		b = append(b, "???\x00"...)
	}
	return append(b, "\n"+rule+"\n"...)
}
