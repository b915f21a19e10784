//go:build !linux

package file_test

import "testing"

func smallDisk(t *testing.T, _ int) string {
	t.Helper()
	t.Skip("only on Linux does the test know how to make a small disk; TestFailingWriteKeepsTheRows covers most of it")
	return ""
}
