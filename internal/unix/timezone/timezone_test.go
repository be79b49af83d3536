package timezone

import (
	"strconv"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	for name, want := range map[string]string{
		"": "UTC 0", "UTC": "UTC 0", "Europe/Paris": "CET 3600", ":Europe/Paris": "CET 3600", "Etc/GMT+3": "-03 -10800",
		"CET-1CEST,M3.5.0,M10.5.0/3": "CET 3600", "XYZ": "XYZ 0", "<+04>-4": "+04 14400",
	} {
		checkZone(t, name, want)
	}
}

// TestHostIsHidden names files of the host, and the zone of the host.
func TestHostIsHidden(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = time.FixedZone("HOST", 7200)
	for name, want := range map[string]string{
		"Local": "Local 0", ":Local": "Local 0", "/usr/share/zoneinfo/Europe/Paris": "UTC 0", "Europe//Paris": "Europe 0", "../zoneinfo/Europe/Paris": "UTC 0",
		"zone1970.tab": "zone 0", "/Europe/Paris": "UTC 0", "./Europe/Paris": "UTC 0",
	} {
		if isZoneName(name) {
			t.Errorf("%q has the form of a name", name)
		}
		checkZone(t, name, want)
	}
}

func checkZone(t *testing.T, name, want string) {
	t.Helper()
	zone, offset := time.Unix(0, 0).In(Load(name)).Zone()
	if got := zone + " " + strconv.Itoa(offset); got != want {
		t.Errorf("%q is %s, want %s", name, got, want)
	}
}
