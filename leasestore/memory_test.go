package leasestore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) leasestore.Store { return leasestore.NewMemory() })
}
