package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestStaticIsWhatTheSourceGives builds the page anew.
func TestStaticIsWhatTheSourceGives(t *testing.T) {
	testenv.Real(t, "web")
	modules := os.Getenv("ATOLL_WEB_MODULES")
	if modules == "" {
		testenv.Skip(t, "web", `no packages of the page: eval "$(scripts/web)"`)
	}
	files, err := build("../source", modules)
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadDir("../static")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range there {
		if _, ok := files[e.Name()]; !ok {
			t.Errorf("static/%s comes of nothing", e.Name())
		}
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../static", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("static/%s is not what the source gives (%v): go run ./internal/api/web/bundle", name, err)
		}
	}
}
