package remoting_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	beNode() // does not return in a process that was started to be a node
	goleak.VerifyTestMain(m)
}
