package storage_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "s3", (*testing.M).Run)) }
