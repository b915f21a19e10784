//go:build unix

package test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// skewVariable holds the seconds by which a process's wall clock is wrong.
const skewVariable = "PROTOKINESIS_TEST_SKEW"

// The clocks of nodes can't be set one by one, so the program is built with a time.Now that adds what skewVariable says to the wall clock's reading. The
// monotonic clock, timers and deadlines are as ever.
const (
	nowBefore = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n"
	nowAfter  = "\tsec, nsec, mono := runtimeNow()\n\tsec += skew\n\tif mono == 0 {\n"
	skewFile  = `package time

import "syscall"

var skew = func() int64 {
	text, _ := syscall.Getenv("` + skewVariable + `")
	digits, sign := text, int64(1)
	if digits != "" && digits[0] == '-' {
		digits, sign = digits[1:], -1
	}
	n, _, _ := leadingInt(digits)
	return sign * int64(n)
}()
`
)

// buildProgram builds the command line program into a folder and returns its path.
func buildProgram(t *testing.T, folder string) string {
	t.Helper()
	root := strings.TrimSpace(runGo(t, "env", "GOROOT"))
	source := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(source)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), nowBefore), "time.Now is not what it was: see nowBefore")
	files := map[string]string{
		source: strings.Replace(string(text), nowBefore, nowAfter, 1),
		filepath.Join(root, "src", "time", "skew.go"): skewFile,
	}
	replace := map[string]string{}
	for path, text := range files {
		replace[path] = filepath.Join(folder, filepath.Base(path))
		require.NoError(t, os.WriteFile(replace[path], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlayFile, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "protokinesis")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	runGo(t, "build", "-overlay", overlayFile, "-o", program, "../cmd/protokinesis")
	return program
}

func runGo(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Logf("%s", failed.Stderr)
	}
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	return string(out)
}
