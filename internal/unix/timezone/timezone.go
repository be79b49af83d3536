// Package timezone finds the time zones that TZ names, as the C library does, without other files of the host than its zones.
package timezone

import (
	"encoding/binary"
	"strings"
	"time"
	_ "time/tzdata" // where the host has no zones
)

// maxName is the length of the longest name or rule.
const maxName = 100

// Load returns a zone by its name or its POSIX rule, such as "CET-1CEST,M3.5.0,M10.5.0/3". What is neither is UTC, with the letters at
// the beginning of the name as its name.
func Load(name string) *time.Location {
	name = strings.TrimPrefix(name, ":")
	if name == "" || name == "UTC" || name == "UTC0" || len(name) > maxName {
		return time.UTC
	}
	if isZoneName(name) {
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
	for letters < len(name) && isLetter(name[letters]) {
		letters++
	}
	if letters >= 3 {
		return time.FixedZone(name[:letters], 0)
	}
	return time.UTC
}

// isZoneName reports whether a text has the form of a zone's name, such as America/Argentina/Ushuaia or Etc/GMT+3. Names of other
// files, such as /etc/passwd and zone1970.tab, do not have it. "Local" would be the zone of the host.
func isZoneName(name string) bool {
	if name == "Local" {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || !isLetter(part[0]) {
			return false
		}
		for i := range len(part) {
			if c := part[i]; !isLetter(c) && (c < '0' || c > '9') && c != '_' && c != '-' && c != '+' {
				return false
			}
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

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
