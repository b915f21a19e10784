package test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestMain(m *testing.M) {
	beFarSide() // does not return in a process started to be the other node
	goleak.VerifyTestMain(emulators.Main(m))
}
