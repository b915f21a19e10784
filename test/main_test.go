package test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestMain(m *testing.M) {
	_ = wireName(embedded) // panics over a format that is none
	beFarSide()            // does not return in a process that was started to be the other node
	beSoakChild()          // likewise
	beFarSubscriber()
	beClusterMember()
	beScaleChild()
	goleak.VerifyTestMain(emulators.Main(runner{m}))
}

type runner struct{ tests interface{ Run() int } }

// Run runs the tests, then ends what they shared.
func (r runner) Run() int {
	defer stopNearSide()
	return r.tests.Run()
}
