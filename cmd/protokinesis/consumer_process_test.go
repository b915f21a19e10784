package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The end of standard input ends a consumer of a demo in order, whatever it is at, and its leases go with it.
func TestConsumeEndsWithStdin(t *testing.T) {
	s := newService(t)
	s.fill(2, 100, 10)
	folder := filepath.Join(t.TempDir(), "demo")
	args := s.args(eager("consume", "s", "--from", "horizon", "--output", "raw", "--end-with-stdin",
		"--lease-store", fileScheme+filepath.Join(folder, "leases")))

	for range 5 { // before it has subscribed
		require.NoError(t, os.Mkdir(folder, 0o700))
		r := cliRun(t, "", args...)
		require.Equal(t, exitDone, r.code, r.stderr)
		require.Empty(t, r.stderr)
		require.NoDirExists(t, folder)
	}

	require.NoError(t, os.Mkdir(folder, 0o700))
	stdin, end := io.Pipe()
	stdout := &onWrite{then: func() { _ = end.Close() }}
	var stderr buffer
	code := run(t.Context(), args, stdin, stdout, &stderr)
	require.Equal(t, exitDone, code, stderr.String())
	require.NotEmpty(t, stdout.String())
	require.NoDirExists(t, folder)
}
