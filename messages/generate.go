package messages

//go:generate ./generate.sh
