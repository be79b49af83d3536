package command

import (
	"encoding/binary"
	"strings"
	"time"
	_ "time/tzdata" // a sandbox has no zone files of its own

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// zoneOf returns the time zone that TZ names, UTC when it names none.
func zoneOf(p *kernel.Proc) *time.Location { return zoneNamed(p.Getenv("TZ")) }

// zoneNamed returns a zone by its name or its POSIX rule, "CET-1CEST,M3.5.0,M10.5.0/3".
func zoneNamed(name string) *time.Location {
	name = strings.TrimPrefix(name, ":")
	if name == "" || name == "UTC" || name == "UTC0" || len(name) > 100 {
		return time.UTC
	}
	if name != "Local" {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc
		}
	}
	if loc, err := time.LoadLocationFromTZData(name, ruleData(name)); err == nil && !strings.Contains(name, "\n") {
		if n, _ := time.Unix(0, 0).In(loc).Zone(); n != "???" {
			return loc
		}
	}
	letters := 0
	for letters < len(name) && isAlpha(name[letters]) {
		letters++
	}
	if letters >= 3 { // a rule that is none is its name, at no distance
		return time.FixedZone(name[:letters], 0)
	}
	return time.UTC
}

// ruleData returns a compiled zone that holds nothing but a POSIX rule.
func ruleData(rule string) []byte {
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
