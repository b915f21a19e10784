package wire

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(emulators.Main(m)) }
