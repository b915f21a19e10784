package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for name, args := range map[string][]string{
		"help": {"--help"}, "help-demo": {"demo", "--help"}, "help-serve": {"serve", "--help"},
		"help-consume": {"consume", "--help"}, "help-publish": {"publish", "--help"},
		"help-shards": {"shards", "--help"}, "help-leases": {"leases", "--help"},
		"help-bench": {"bench", "--help"}, "help-bench-publish": {"bench", "publish", "--help"}, "help-bench-consume": {"bench", "consume", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cliRun(t, "", args...)
			require.Equal(t, exitDone, r.code)
			require.Empty(t, r.stderr)
			golden(t, name, r.stdout)
		})
	}
}

func TestWrongUsage(t *testing.T) {
	lease := filepath.Join(t.TempDir(), "leases.db")
	for _, c := range []struct {
		names string // what the message must say
		args  []string
	}{
		{"expected one of", nil},
		{"nonsense", []string{"nonsense"}},
		{"--nonsense", []string{"consume", "s", "--nonsense"}},
		{"<stream>", []string{"consume"}},
		{"<stream>", []string{"consume", "a/b"}},
		{"<stream>", []string{"consume", "arn:aws:sqs:us-east-1:000000000000:stream/s"}},
		{"--endpoint", []string{"consume", "s", "--endpoint", "localhost"}},
		{"--log-level", []string{"consume", "s", "--log-level", "loud"}},
		{"--from", []string{"consume", "s", "--from", "yesterday"}},
		{"--from", []string{"consume", "s", "--from", "shardId-000000000000@"}},
		{"--from", []string{"consume", "s", "--from", "shardId-000000000000@12x"}},
		{"--from", []string{"consume", "s", "--from", "1969-12-31T00:00:00Z"}},
		{"--lease-store", []string{"consume", "s", "--lease-store", "redis"}},
		{"--lease-store", []string{"consume", "s", "--lease-store", "file:"}},
		{"--lease-store", []string{"consume", "s", "--lease-store", "dynamodb:"}},
		{"--lease-store", []string{"consume", "s", "--lease-store", "dynamodb:a"}},
		{"--lease-store", []string{"consume", "s", "--lease-store", "dynamodb:table", "--application", ""}},
		{"--dynamodb-endpoint", []string{"consume", "s", "--lease-store", "dynamodb:table", "--dynamodb-endpoint", "localhost:8000"}},
		{"--dynamodb-endpoint", []string{"consume", "s", "--dynamodb-endpoint", "http://127.0.0.1:8000"}},
		{"--application", []string{"consume", "s", "--application", "orders"}},
		{"--single-stream", []string{"consume", "s", "--single-stream"}},
		{"--never-create-table", []string{"consume", "s", "--never-create-table"}},
		{"--remote", []string{"consume", "s", "--remote", "127.0.0.1:0"}},
		{"--remote", []string{"consume", "s", "--lease-store", "dynamodb:table", "--remote", "127.0.0.1"}},
		{"--remote", []string{"consume", "s", "--lease-store", "dynamodb:table", "--remote", "127.0.0.1:65536"}},
		{"--remote", []string{"consume", "s", "--lease-store", "dynamodb:table", "--remote", "0.0.0.0:8090"}},
		{"--remote", []string{"consume", "s", "--lease-store", "dynamodb:table", "--remote", "[::]:8090"}},
		{"--gather", []string{"consume", "s", "--gather", "1s"}},
		{"--gather", []string{"consume", "s", "--lease-store", "dynamodb:table", "--gather=-1s"}},
		{"--count", []string{"consume", "s", "--count", "0"}},
		{"--for", []string{"consume", "s", "--for=-1s"}},
		{"--output", []string{"consume", "s", "--output", "xml"}},
		{"--exec and --output", []string{"consume", "s", "--output", "raw", "--exec", "cat"}},
		{"--window", []string{"consume", "s", "--window", "0"}},
		{"--parallel", []string{"consume", "s", "--parallel", "0"}},
		{"--create-if-missing", []string{"consume", "s", "--create-if-missing", "0"}},
		{"--poll-interval", []string{"consume", "s", "--poll-interval=-1s"}},
		{"--read-rate", []string{"consume", "s", "--read-rate", "0"}},
		{"--lease-ttl", []string{"consume", "s", "--lease-ttl", "0s"}},
		{"--renew-every", []string{"consume", "s", "--lease-ttl", "1s", "--renew-every", "1s"}},
		{"--list-every", []string{"consume", "s", "--list-every", "0s"}},
		{"--shutdown-timeout", []string{"consume", "s", "--shutdown-timeout", "0s"}},
		{"--partition-key and --key-field", []string{"publish", "s", "--partition-key", "a", "--key-field", "b"}},
		{"--partition-key", []string{"publish", "s", "--partition-key", ""}},
		{"--key-field", []string{"publish", "s", "--key-field", ""}},
		{"--header", []string{"publish", "s", "--header", "a"}},
		{"--header", []string{"publish", "s", "--header", "a=1", "--header", "a=2"}},
		{"--output", []string{"publish", "s", "--output", "raw"}},
		{"--create-if-missing", []string{"publish", "s", "--create-if-missing", "0"}},
		{"--shutdown-timeout", []string{"publish", "s", "--shutdown-timeout", "0s"}},
		{"--ordering", []string{"publish", "s", "--ordering", "none"}},
		{"--linger", []string{"publish", "s", "--linger=-1s"}},
		{"expected one of", []string{"bench"}},
		{"--linger", []string{"bench", "publish", "--linger=-1s"}},
		{"--ordering", []string{"bench", "publish", "--ordering", "none"}},
		{"--records", []string{"bench", "publish", "--records", "0"}},
		{"--record-size", []string{"bench", "publish", "--record-size", "0"}},
		{"--record-size", []string{"bench", "consume", "--record-size", "1048576"}},
		{"--keys", []string{"bench", "publish", "--keys", "0"}},
		{"--shards", []string{"bench", "consume", "--shards", "0"}},
		{"--stream and --shards", []string{"bench", "publish", "--stream", "s", "--shards", "2"}},
		{"--stream", []string{"bench", "publish", "--stream", "a/b"}},
		{"--senders", []string{"bench", "publish", "--senders", "0"}},
		{"--outstanding", []string{"bench", "publish", "--outstanding", "0"}},
		{"--stream and --aggregate", []string{"bench", "consume", "--stream", "s", "--aggregate"}},
		{"--deliver", []string{"bench", "consume", "--deliver", "slowly"}},
		{"--poll-interval", []string{"bench", "consume", "--poll-interval", "0s"}},
		{"--live", []string{"bench", "consume", "--live=-1"}},
		{"--records", []string{"demo", "--records", "0"}},
		{"--shards", []string{"demo", "--shards", "0"}},
		{"--keys", []string{"demo", "--keys", "0"}},
		{"--rate", []string{"demo", "--rate=-1"}},
		{"--nodes", []string{"demo", "--nodes", "0"}},
		{"--nodes", []string{"demo", "--kill"}},
		{"--chaos and --nodes", []string{"demo", "--chaos", "--nodes", "2"}},
		{"--endpoint", []string{"demo", "--endpoint", "http://127.0.0.1:1"}},
		{"--lease-store", []string{"leases"}},
		{"--lease-store", []string{"leases", "--lease-store", "memory"}},
		{"--lease-store", []string{"leases", "--lease-store", "dynamodb:a"}},
		{"--application", []string{"leases", "--lease-store", "file:" + lease, "--application", "orders"}},
		{"--stream", []string{"leases", "--lease-store", "file:" + lease, "--stream", "a/b"}},
	} {
		args := c.args
		if len(args) > 0 && args[0] == "consume" {
			args = append([]string{"consume", "--lease-store", fileScheme + lease}, args[1:]...)
		}
		r := cliRun(t, "", args...)
		assert.Equal(t, exitUsage, r.code, "%q", c.args)
		assert.Contains(t, r.stderr, c.names, "%q", c.args)
		assert.Len(t, splitLines(r.stderr), 1, "%q", c.args)
		assert.Empty(t, r.stdout, "%q", c.args)
	}
	_, err := os.Stat(lease)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was opened")
}

func TestNoRegion(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	for _, command := range []string{"consume", "publish", "shards"} {
		r := cliRun(t, "", command, "s")
		assert.Equal(t, exitFailed, r.code)
		assert.Contains(t, r.stderr, "--region")
	}
}

func TestMissingStream(t *testing.T) {
	s := newService(t)
	for _, command := range []string{"consume", "publish", "shards"} {
		r := s.run("a line\n", command, "nowhere", "--log-level", "error")
		assert.Equal(t, exitFailed, r.code, command)
		assert.Contains(t, r.stderr, "nowhere", command)
		assert.NotContains(t, r.stderr, "RequestID", command)
	}
}
