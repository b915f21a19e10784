package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore/file"
)

// smallDisk mounts a file system of that many bytes, a quarter of them taken by the file ballast.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a full disk needs a small one, and mounting it the right to: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, size/4), 0o600))
	return dir
}

func TestOpenUnwritableDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestOpenRefusesWrongPlaces covers it for users other than root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=64k"); err != nil {
		t.Skipf("root may write anywhere but to a read-only file system, and mounting one is not allowed: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	path := filepath.Join(dir, "leases.db")
	_, err := file.Open(path)
	require.ErrorIs(t, err, syscall.EROFS)
	require.ErrorContains(t, err, path)
	require.NotErrorIs(t, err, file.ErrCorrupt)
}
