package login_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "oidc", (*testing.M).Run)) }
