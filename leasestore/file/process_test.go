package file_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// The tests run their own binary once more as another process: childEnv says what it does, pathEnv with which file.
const (
	childEnv = "LEASESTORE_FILE_TEST_CHILD"
	pathEnv  = "LEASESTORE_FILE_TEST_PATH"
)

const childShards = 8

// runChild is the other process. It says on stdout what it has done, and goes on until it is killed or stdin ends.
func runChild(what string) int {
	s, err := file.Open(os.Getenv(pathEnv))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	switch what {
	case "hold":
		if _, err := s.Acquire(context.Background(), leasestore.Lease{Key: key(1)}, "child"); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "write":
		var wait sync.WaitGroup
		for n := range childShards {
			wait.Go(func() { checkpointForever(s, n) })
		}
		wait.Wait()
	}
	return 0
}

// checkpointForever prints "shard sequence" after each checkpoint that was acknowledged.
func checkpointForever(s *file.Store, n int) {
	lease, err := s.Acquire(context.Background(), leasestore.Lease{Key: key(n)}, "child")
	for sequence := 1; err == nil; sequence++ {
		lease, err = s.Checkpoint(context.Background(), lease, leasestore.AtSequence(strconv.Itoa(sequence), 0))
		if err == nil {
			_, err = os.Stdout.WriteString(fmt.Sprintf("%d %d\n", n, sequence))
		}
	}
	fmt.Println("error", err)
}

// startChild starts the other process, which is killed at the test's end at the latest.
func startChild(t *testing.T, what, path string) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+what, pathEnv+"="+path)
	_, err = cmd.StdinPipe() // stays open as long as this process lives
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(stdout)
}

func TestLockedByAnotherProcess(t *testing.T) {
	path := newPath(t)
	child, out := startChild(t, "hold", path)
	require.True(t, out.Scan())
	require.Equal(t, "ready", out.Text())

	began := time.Now()
	_, err := file.Open(path, file.WithLockTimeout(100*time.Millisecond))
	require.ErrorIs(t, err, file.ErrLocked)
	require.ErrorContains(t, err, path)
	require.Less(t, time.Since(began), 30*time.Second)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	s := open(t, path)
	got, err := s.Get(t.Context(), key(1))
	require.NoError(t, err)
	require.Empty(t, got.Owner, "after kill -9 the lease is free at once")
	_, err = s.Acquire(t.Context(), got, "parent")
	require.NoError(t, err)
}

func TestLockedByThisProcess(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	lease := acquire(t, s, 1)
	for _, timeout := range []time.Duration{-1, 0, time.Millisecond} {
		_, err := file.Open(path, file.WithLockTimeout(timeout))
		require.ErrorIs(t, err, file.ErrLocked)
		require.ErrorContains(t, err, path)
	}
	_, err := s.Renew(t.Context(), lease)
	require.NoError(t, err, "the first store does not notice")
	require.NoError(t, s.Close())
	open(t, path, file.WithLockTimeout(0))
}

// The promise of every acknowledged write, for a process that gets no chance to say goodbye.
func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	path := newPath(t)
	child, out := startChild(t, "write", path)
	acknowledged := map[string]int{}
	for lines := 0; out.Scan(); lines++ {
		shard, text, ok := strings.Cut(out.Text(), " ")
		sequence, err := strconv.Atoi(text)
		if !ok || err != nil {
			break // the kill cut the line off
		}
		acknowledged[shard] = sequence
		if lines == 400 {
			require.NoError(t, child.Process.Kill()) // what it had said before is still read
		}
	}
	_ = child.Wait()
	require.Len(t, acknowledged, childShards)

	s := open(t, path)
	for n := range childShards {
		got, err := s.Get(t.Context(), key(n))
		require.NoError(t, err)
		sequence, _ := got.Checkpoint.Sequence()
		stored, err := strconv.Atoi(sequence)
		require.NoError(t, err)
		last := acknowledged[strconv.Itoa(n)]
		assert.GreaterOrEqual(t, stored, last, "shard %d", n)
		assert.LessOrEqual(t, stored, last+1, "shard %d: at most the write under way is stored beyond", n)
	}
}
