#!/usr/bin/env bash
# Lints the .proto files of this folder and generates the Go code from them.
#
#   messages/generate.sh           writes messages/*.pb.go
#   messages/generate.sh --check   writes nothing; fails if messages/*.pb.go is not what would be written
#
# actor.proto, which ours import, is not ours to commit: it is taken from the Proto.Actor module that go.mod requires.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

case ${1:-} in
  "" | --check) mode=${1:-} ;;
  *)
    echo "usage: messages/generate.sh [--check]" >&2
    exit 2
    ;;
esac

buf=$(.ci/tool buf)
generator=$(.ci/tool protoc-gen-go)
go mod download github.com/asynkron/protoactor-go
protoactor=$(go list -m -f '{{.Dir}}' github.com/asynkron/protoactor-go)

workspace=$(mktemp -d)
trap 'rm -rf "$workspace"' EXIT
mkdir -p "$workspace/ours/messages" "$workspace/protoactor" "$workspace/generated/messages"
cp messages/*.proto "$workspace/ours/messages"
cp "$protoactor/actor/actor.proto" "$workspace/protoactor"
cp messages/buf.yaml messages/buf.gen.yaml "$workspace"

(
  cd "$workspace"
  # Findings name the file as it is called in the repository.
  "$buf" lint | sed 's#^ours/##'
  PATH=$(dirname "$generator"):$PATH "$buf" generate --path ours/messages
)

if [[ $mode == --check ]]; then
  stale=0
  for name in $({ ls messages "$workspace/generated/messages"; } | grep "\.pb\.go$" | sort -u); do
    diff -u "messages/$name" "$workspace/generated/messages/$name" >"$workspace/diff" 2>&1 && continue
    stale=1
    echo "messages/$name is not what its .proto file generates:" >&2
    head -n 20 "$workspace/diff" >&2
  done
  if ((stale)); then
    echo "The generated code is out of date. Run 'make generate' and commit the result." >&2
    exit 1
  fi
  echo "messages/*.pb.go is up to date."
  exit
fi

rm -f messages/*.pb.go
cp "$workspace"/generated/messages/*.pb.go messages
