// Makes many small objects, some at a time: node many.mjs PORT TOKEN COUNT

import https from 'node:https';

const AT_ONCE = 16;
const [port, token, count] = process.argv.slice(2);
const agent = new https.Agent({ keepAlive: true, maxSockets: AT_ONCE, rejectUnauthorized: false });

function make(number) {
  const name = `many-${String(number).padStart(5, '0')}`;
  const body = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  const path = '/api/v1/namespaces/many/configmaps';
  const asked = { host: '127.0.0.1', port, path, method: 'POST', agent, headers };
  return new Promise((resolve, reject) => {
    const request = https.request(asked, (answer) => {
      answer.resume();
      const { statusCode } = answer;
      answer.on('end', () => (statusCode === 201 ? resolve() : reject(new Error(`${statusCode}`))));
    });
    request.on('error', reject);
    request.end(body);
  });
}

let next = 0;
const worker = async () => {
  while (next < Number(count)) await make(next++);
};
await Promise.all(Array.from({ length: AT_ONCE }, worker));
agent.destroy();
