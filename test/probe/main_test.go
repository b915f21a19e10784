package probe_test

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inTest is what "go test" does for a test function, for the examples.
func inTest(test func(t testing.TB)) {
	t := &recorder{}
	t.run(test)
	if t.failure != "" {
		fmt.Println("FAIL:", t.failure)
	}
}

// recorder is a test that is meant to fail: it keeps what Fatalf was told. Anything else that package probe
// calls goes to the test inside, if there is one.
type recorder struct {
	testing.TB
	failure  string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run runs test as a test is run: on a goroutine of its own, the cleanups last.
func (r *recorder) run(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range slices.Backward(r.cleanups) {
				cleanup()
			}
		}()
		test(r)
	}()
	<-done
}

// outputTest is a recorder of which the output is kept.
type outputTest struct {
	recorder
	output io.Writer
}

func (o *outputTest) Output() io.Writer { return o.output }
