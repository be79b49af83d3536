package kubernetes

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// TestPlacementOfVersions checks that the placement depends on the cluster's version, which is read once, and
// on what its nodes support.
func TestPlacementOfVersions(t *testing.T) {
	for minor, want := range map[string]Placement{"34": PlaceInit, "34+": PlaceInit, "35": PlaceVolume, "36+": PlaceVolume} {
		var asked atomic.Int32
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/version" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			fmt.Fprintf(w, `{"major":"1","minor":%q}`, minor)
		}))
		defer s.Close()
		tg := newTarget(t, s.URL)
		d := &Driver{GuestImage: "guest:1"}
		for range 2 {
			if how, err := d.choosePlacement(t.Context(), tg); err != nil || how != want {
				t.Errorf("version 1.%s: %q, %v", minor, how, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if want != PlaceVolume {
			continue
		}
		if next := d.nextPlacement(tg, PlaceVolume); next != PlaceInit {
			t.Errorf("after a volume that failed: %q", next)
		}
		if how, err := d.choosePlacement(t.Context(), tg); err != nil || how != PlaceInit {
			t.Errorf("that nodes have no volumes of images is forgotten: %q, %v", how, err)
		}
		if next := d.nextPlacement(tg, PlaceInit); next != "" {
			t.Errorf("after an init container that failed: %q", next)
		}
	}
}

func TestConfiguredPlacement(t *testing.T) {
	d := &Driver{Placement: PlaceVolume}
	if _, err := d.choosePlacement(t.Context(), &target{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a volume of no image: %v", err)
	}
	d.Placement = "elsewhere"
	if _, err := d.choosePlacement(t.Context(), &target{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an unknown placement: %v", err)
	}
	d = &Driver{Helpers: helper.Finder{Dir: t.TempDir()}}
	if how, err := d.choosePlacement(t.Context(), &target{}); err != nil || how != PlaceNone {
		t.Errorf("without a guest anywhere: %q, %v", how, err)
	}
	d.Placement, d.GuestImage = PlaceVolume, "guest:1"
	if next := d.nextPlacement(&target{}, PlaceVolume); next != "" {
		t.Errorf("what was asked for is replaced by %q", next)
	}
}

// TestPodOfPlacement checks the configuration and the path of the guest.
func TestPodOfPlacement(t *testing.T) {
	for how, command := range map[Placement]string{
		PlaceImage: "/bin/the-guest pod", PlaceVolume: "/run/atoll/bin/the-guest pod", PlaceInit: "/run/atoll/atoll-guest pod", PlaceCopy: "/bin/sh -c " + awaitGuest + " /run/atoll/atoll-guest",
	} {
		d := &Driver{Dir: t.TempDir(), GuestImage: "guest:1", GuestPath: "/bin/the-guest", Direct: true}
		no := false
		spec := &corev1.PodSpec{Containers: []corev1.Container{{
			Args: []string{"x"}, Env: []corev1.EnvVar{{Name: "HOME"}, {Name: "ATOLL_PORT", Value: "3000"}}, SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no},
		}}}
		if err := d.addGuest(how, "s1", atoll.Network{Allow: []string{"example.com"}}, spec); err != nil {
			t.Fatal(err)
		}
		c := &spec.Containers[0]
		if got := strings.Join(c.Command, " "); got != command || c.Args != nil {
			t.Errorf("%s: %q %q", how, got, c.Args)
		}
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		var config guest.Config
		if err := json.Unmarshal([]byte(env["ATOLL_GUEST"]), &config); err != nil || !config.Egress || config.CanSwitchUser || !slices.Contains(config.Env, "http_proxy=http://"+guest.ProxyAddress) {
			t.Errorf("%s: %+v, %v", how, config, err)
		}
		if env["ATOLL_ID"] != "s1" || env["ATOLL_OWN"] != `["HOME","ATOLL_PORT"]` || env["ATOLL_PORT"] != "3000" || env["ATOLL_DIRECT"] != ":26999" || env["ATOLL_GUEST_PORT"] != "26998" || len(env["ATOLL_KEY"]) != 44 {
			t.Errorf("%s: %v", how, env)
		}
		for _, m := range c.VolumeMounts {
			if m.ReadOnly != (how != PlaceCopy) {
				t.Errorf("%s: the guest's directory: %+v", how, m)
			}
		}
		if how == PlaceInit {
			if first := spec.InitContainers[0]; first.SecurityContext == nil || *first.SecurityContext.AllowPrivilegeEscalation || strings.Join(first.Command, " ") != "/bin/the-guest copy /run/atoll" {
				t.Errorf("%+v", first)
			}
		}
		if how == PlaceCopy && spec.NodeSelector[corev1.LabelArchStable] != runtime.GOARCH {
			t.Errorf("%v: it may come to a node that can't run it", spec.NodeSelector)
		}
	}
}

// TestGuestPortIsBelowEphemeralRange checks that no outgoing connection gets a port of the guest, and that the
// port of a pod is in its annotations: older pods have another one.
func TestGuestPortIsBelowEphemeralRange(t *testing.T) {
	const firstEphemeral = 32768 // net.ipv4.ip_local_port_range
	if guestPort >= firstEphemeral || directPort >= firstEphemeral {
		t.Errorf("%d, %d", guestPort, directPort)
	}
	d := &Driver{Dir: t.TempDir()}
	tg := &target{d: d, home: "h", place: place{namespace: "ns"}}
	p, err := d.newPod(t.Context(), tg, PlaceCopy, atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	meta, err := p.objectMeta("x")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := readPod(d, tg, &meta); err != nil || again.port != guestPort {
		t.Errorf("%+v, %v", again, err)
	}
	delete(meta.Annotations, notePort)
	if old, err := readPod(d, tg, &meta); err != nil || old.port != 41998 {
		t.Errorf("a pod of an older version: %+v, %v", old, err)
	}
}

// TestKeyOfHost checks that the key is created once, and that only its user can read it.
func TestKeyOfHost(t *testing.T) {
	d := &Driver{Dir: filepath.Join(t.TempDir(), "a", "b")}
	keys := make([]ed25519.PrivateKey, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = d.hostKey(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !k.Equal(keys[0]) {
			t.Error("there are several")
		}
	}
	path := filepath.Join(d.Dir, keyName)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if list, err := os.ReadDir(d.Dir); err != nil || len(list) != 1 {
		t.Errorf("left over: %v, %v", list, err)
	}
	for _, text := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.hostKey(); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
