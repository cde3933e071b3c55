// Runs Chromium in a network namespace of its own. Chromium aborts all requests whenever an
// interface of the host appears or disappears, as the pods of other tests make them do.
//
// The server is reached through two relays, on both sides of a Unix socket: one here, one inside.

import { createServer, connect } from 'node:net';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const RELAY = `
const { createServer, connect } = require('node:net');
const [port, path] = process.argv.slice(2);
createServer((client) => {
  const server = connect(path);
  client.on('error', () => server.destroy());
  server.on('error', () => client.destroy());
  client.on('close', () => server.destroy());
  server.on('close', () => client.destroy());
  client.pipe(server).pipe(client);
}).listen(Number(port), '127.0.0.1', () => require('node:fs').writeFileSync(path + '.ready', ''));
// Ends with the browser, whose process started it.
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(), 500);
`;

/** Writes a program that starts Chromium where only the server at this address can be reached. */
export function isolatedChromium(base, directory) {
  const { port } = new URL(base);
  const socket = join(directory, `relay-${port}.sock`);
  const relay = createServer((client) => {
    const server = connect(Number(port), '127.0.0.1');
    client.on('error', () => server.destroy());
    server.on('error', () => client.destroy());
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
    client.pipe(server).pipe(client);
  });
  relay.listen(socket);
  relay.unref();
  const script = join(directory, 'relay.cjs');
  writeFileSync(script, RELAY);
  const program = join(directory, 'chromium.sh');
  writeFileSync(
    program,
    `#!/bin/sh
exec unshare --net sh -c '
  busybox ip link set lo up
  node "${script}" ${port} "${socket}" 3>&- 4>&- </dev/null >/dev/null 2>&1 &
  until [ -e "${socket}.ready" ]; do sleep 0.05; done
  exec /usr/bin/chromium "$@"' sh "$@"
`,
  );
  chmodSync(program, 0o755);
  return program;
}
