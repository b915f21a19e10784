// Loaded into every emulator before its own code.
'use strict'

// An emulator must not outlive the test process: its standard input is a pipe from there, which ends with it. kinesis-local does
// not end at process.exit, and there is nothing to save.
const end = () => process.kill(process.pid, 'SIGKILL')
process.stdin.on('end', end).on('error', end).resume()

// dynalite and kinesalite throw when a client breaks off in the middle of a request, as one that is killed does, and so would end with it.
if (/[\\/](dynalite|kinesalite)[\\/]/.test(process.argv[1])) {
  process.on('uncaughtException', (err) => {
    if (err && err.code === 'ECONNRESET') return
    process.stderr.write(`${(err && err.stack) || err}\n`, end)
  })
}

// The emulators listen on all interfaces; a test is for this machine only.
const net = require('net')
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (...args) {
  if (args[0] !== null && typeof args[0] === 'object' && 'port' in args[0]) {
    args[0] = { ...args[0], host: '127.0.0.1' }
  } else if (typeof args[0] === 'number' || /^\d+$/.test(args[0])) {
    const callback = args.findLast((arg) => typeof arg === 'function')
    args = [{ port: Number(args[0]), host: '127.0.0.1' }, ...(callback ? [callback] : [])]
  }
  return listen.apply(this, args)
}
