// WebSocket through slotgate with a client and a server that know nothing of it: the npm package ws.
//
//     node tests/interop/websocket.js /path/to/slotgate
//
// Ends with "N passed, N failed" and status 0 only when all passed.
'use strict';
const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { spawn } = require('child_process');
const { once } = require('events');
const { WebSocket, WebSocketServer } = require('ws');

const program = process.argv[2];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sg-ws-'));

function startServer() {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: true,
        handleProtocols: (protocols) => (protocols.has('chat') ? 'chat' : false) });
    server.on('connection', (socket, request) => {
        socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
        if (request.url === '/hello') socket.send('hello at once');
        if (request.url === '/bye') socket.close(4001, 'done');
        if (request.url === '/die') request.socket.destroy();
    });
    return once(server, 'listening').then(() => server);
}

async function startGateway(upstreamPort) {
    const config = path.join(folder, 'slotgate.yaml');
    fs.writeFileSync(config, `
server: {listen: "127.0.0.1:0", workers: 2}
admin: {listen: "127.0.0.1:0"}
log: {access: "off"}
classes: {slots: [{name: open, algorithm: concurrency, limit: 2, lease: 5m, per: ip}]}
upstreams: {up: {targets: [{url: "http://127.0.0.1:${upstreamPort}"}]}}
routes:
  - {name: limited, match: {path: /limited}, auth: none, classes: [slots], upstream: up}
  - {name: all, match: {path: /*}, auth: none, upstream: up}
`);
    const child = spawn(program, ['-c', config], { stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    let port;
    for await (const chunk of child.stderr) {
        log += chunk;
        const listening = log.match(/"message":"listening"[^}]*"port":(\d+)/);
        if (listening) port = Number(listening[1]);
        if (log.includes('"message":"serving"')) break;
    }
    assert(port, 'the gateway did not start: ' + log);
    return { child, port };
}

function open(url, protocols, options) {
    const socket = new WebSocket(url, protocols, options);
    socket.inbox = [];
    socket.on('message', (data, isBinary) => {
        socket.inbox.push(isBinary ? data : data.toString());
        socket.emit('inbox');
    });
    return once(socket, 'open').then(() => socket);
}

async function next(socket) {
    while (socket.inbox.length === 0) await once(socket, 'inbox');
    return socket.inbox.shift();
}

const tests = {
    async 'text, binary, empty and large messages come back'(base) {
        const socket = await open(base + '/echo');
        for (const text of ['x', '', 'ä€😀', 'y'.repeat(300000)]) {
            socket.send(text);
            assert.strictEqual(await next(socket), text);
        }
        const bytes = crypto.randomBytes(4 * 1024 * 1024);
        socket.send(bytes);
        assert(bytes.equals(await next(socket)));
        socket.close();
        await once(socket, 'close');
    },
    async 'many messages keep their order'(base) {
        const socket = await open(base + '/echo');
        for (let i = 0; i < 2000; i++) socket.send(String(i));
        for (let i = 0; i < 2000; i++) assert.strictEqual(await next(socket), String(i));
        socket.terminate();
    },
    async 'ping and pong, subprotocol, compression'(base) {
        const socket = await open(base + '/echo', ['other', 'chat'], { perMessageDeflate: true });
        assert.strictEqual(socket.protocol, 'chat');
        assert(socket.extensions.includes('permessage-deflate'));
        socket.ping('are you there');
        const [payload] = await once(socket, 'pong');
        assert.strictEqual(payload.toString(), 'are you there');
        socket.close();
        await once(socket, 'close');
    },
    async 'a frame that comes with the 101'(base) {
        const socket = new WebSocket(base + '/hello');
        const [data] = await once(socket, 'message');
        assert.strictEqual(data.toString(), 'hello at once');
        socket.close();
        await once(socket, 'close');
    },
    async 'the close code of either side arrives'(base) {
        const socket = new WebSocket(base + '/bye');
        const [code, reason] = await once(socket, 'close');
        assert.deepStrictEqual([code, reason.toString()], [4001, 'done']);
    },
    async 'an upstream that dies ends the tunnel'(base) {
        const socket = new WebSocket(base + '/die');
        socket.on('error', () => {});
        const [code] = await once(socket, 'close');
        assert.strictEqual(code, 1006);
    },
    async 'two sockets of a limit of two, and the third is refused'(base) {
        const first = await open(base + '/limited');
        const second = await open(base + '/limited');
        const third = new WebSocket(base + '/limited');
        third.on('error', () => {});
        const [, response] = await once(third, 'unexpected-response');
        assert.strictEqual(response.statusCode, 429);
        response.destroy();
        first.close();
        await once(first, 'close');
        second.terminate();
    },
    async 'a hundred sockets at once'(base) {
        const sockets = await Promise.all(Array.from({ length: 100 }, () => open(base + '/echo')));
        sockets.forEach((socket, i) => socket.send('n' + i));
        for (let i = 0; i < sockets.length; i++) assert.strictEqual(await next(sockets[i]), 'n' + i);
        sockets.forEach((socket) => socket.terminate());
    },
};

async function main() {
    const server = await startServer();
    const gateway = await startGateway(server.address().port);
    let passed = 0;
    let failed = 0;
    for (const [name, run] of Object.entries(tests)) {
        let timer;
        const late = new Promise((resolve, reject) => { timer = setTimeout(() => reject(new Error('no end in sight')), 60000); });
        try {
            await Promise.race([run('ws://127.0.0.1:' + gateway.port), late]);
            passed++;
            console.log('ok   ' + name);
        } catch (error) {
            failed++;
            console.log('FAIL ' + name + '\n' + error.stack);
        }
        clearTimeout(timer);
    }
    gateway.child.kill('SIGTERM');
    const [status] = await once(gateway.child, 'exit');
    console.log('gateway ended with ' + status);
    server.clients.forEach((client) => client.terminate());
    server.close();
    fs.rmSync(folder, { recursive: true });
    console.log(`${passed} passed, ${failed} failed`);
    process.exit(failed || status !== 0 ? 1 : 0);
}

main();
