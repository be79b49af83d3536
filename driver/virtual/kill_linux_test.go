package virtual_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestKillAtEveryStep(t *testing.T) {
	atolltest.KillAtEveryStep(t, 4, func(_ testing.TB, dir string) atoll.Driver { return &virtual.Driver{Dir: dir} })
}

func TestSealedKillAtEveryStep(t *testing.T) {
	testenv.Real(t, "sealed")
	atolltest.KillAtEveryStep(t, 4, func(_ testing.TB, dir string) atoll.Driver { return sealing{&virtual.Driver{Dir: dir}} })
}
