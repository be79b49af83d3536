package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestEnvsubst(t *testing.T) {
	in := "home $HOME ${HOME} $NOSUCH ${NOSUCH}x $ $$ ${ ${HOME $1 ${1} $HOME_ $TZ.\nlast ${TZ}"
	commandtest.Compare(t, commandtest.Cases(nil, in, "envsubst", "envsubst '$TZ'", "envsubst '${TZ} $NOSUCH'", "envsubst ''", "envsubst -v '$A ${B} $A x'", "envsubst a b", "envsubst -v"))
}
