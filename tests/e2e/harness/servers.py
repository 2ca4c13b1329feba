"""Two servers that others wrote, nginx and Node.js: each records how it read a request, and answers `X-Up: 1` when that is complete."""
import json
import os
import shutil
import signal
import subprocess
import threading

from .sockets import free_port
from .wait import until

NGINX = """
load_module %(modules)s/ngx_http_echo_module.so;
worker_processes 1;
daemon off;
pid %(folder)s/nginx.pid;
error_log %(folder)s/nginx.error crit;
events { worker_connections 512; }
http {
    log_format json escape=json '{"status":$status,"method":"$request_method","target":"$request_uri","body":"$request_body",'
        '"head":"$echo_client_request_headers","length":"$content_length","coding":"$http_transfer_encoding","host":"$http_host",'
        '"smuggled":"$http_x_smuggled"}';
    access_log %(folder)s/nginx.access json;
    client_body_temp_path %(folder)s; proxy_temp_path %(folder)s; fastcgi_temp_path %(folder)s; uwsgi_temp_path %(folder)s;
    scgi_temp_path %(folder)s;
    client_body_buffer_size 1m;
    client_body_in_single_buffer on;
    large_client_header_buffers 8 64k;
    underscores_in_headers on;
    ignore_invalid_headers off;
    merge_slashes off;
    lingering_close off;
    server {
        listen 127.0.0.1:%(port)d;
        location / {
            echo_read_request_body;
            add_header X-Up 1 always;
            echo ok;
        }
    }
}
"""

NODE = """
const http = require('http'), fs = require('fs');
const log = fs.openSync(process.argv[2], 'a');
const write = (entry) => fs.writeSync(log, JSON.stringify(entry) + '\\n');
const server = http.createServer({maxHeaderSize: 65536, keepAliveTimeout: 60000}, (request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
        write({method: request.method, target: request.url, fields: request.rawHeaders, body: Buffer.concat(parts).toString('latin1')});
        response.sendDate = false;
        response.setHeader('X-Up', '1');
        response.end('ok\\n');
    });
    request.on('error', () => {});
});
server.on('clientError', (error, socket) => {
    if (error.code !== 'ECONNRESET')
        write({refused: error.code});
    socket.end('HTTP/1.1 400 Bad Request\\r\\nConnection: close\\r\\n\\r\\n');
});
server.listen(0, '127.0.0.1', () => write({port: server.address().port}));
"""


def program(name):
    found = shutil.which(name, path="/usr/sbin:" + os.environ.get("PATH", "/usr/bin"))
    assert found, "%s is needed (Debian: nginx-light, nodejs)" % name
    return found


class Server:
    """Its log has one JSON object a line, and is read on from where it was left."""
    encoding = "latin-1"

    def __init__(self, folder):
        self.folder, self.process, self.log = folder, None, None
        self.offset, self.seen, self.lock = 0, [], threading.Lock()

    def new_lines(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, "rb") as f:
            f.seek(self.offset)
            whole = f.read()
        whole = whole[:whole.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [json.loads(line) for line in whole.decode(self.encoding).split("\n")[:-1]]

    def requests(self):
        """(method, target, fields, body) as it was read; None for a request that was refused."""
        with self.lock:
            self.seen += [self.read(entry) for entry in self.new_lines()]
            return list(self.seen)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
            self.process = None


class Nginx(Server):
    name = "nginx"

    def start(self):
        self.log, self.port = os.path.join(self.folder, "nginx.access"), free_port()
        modules = next(m for m in ("/usr/lib/nginx/modules", "/usr/share/nginx/modules") if os.path.isdir(m))
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(NGINX % {"folder": self.folder, "port": self.port, "modules": modules})
        self.process = subprocess.Popen([program("nginx"), "-c", config, "-p", self.folder, "-e", os.path.join(self.folder, "nginx.error")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until("nginx runs", lambda: os.path.exists(os.path.join(self.folder, "nginx.pid")) and
              os.path.getsize(os.path.join(self.folder, "nginx.pid")))
        return self

    @staticmethod
    def read(entry):
        if entry["status"] != 200:
            return None if entry["status"] in (400, 405, 501) else entry
        lines = entry["head"].split("\r\n")
        fields = [tuple(part.strip(" \t") for part in line.split(":", 1)) for line in lines if ":" in line.split(" ")[0]]
        assert entry["length"] == str(len(entry["body"])) or (entry["length"], entry["body"]) == ("", ""), entry
        for name, key in (("transfer-encoding", "coding"), ("host", "host"), ("x-smuggled", "smuggled")):
            assert ", ".join(v for k, v in fields if k.lower() == name) == entry[key], entry
        return entry["method"], entry["target"], fields, entry["body"]


class Node(Server):
    name, encoding = "node", "utf-8"

    def start(self):
        self.log = os.path.join(self.folder, "node.log")
        script = os.path.join(self.folder, "echo.js")
        with open(script, "w", encoding="ascii") as f:
            f.write(NODE)
        self.process = subprocess.Popen([program("node"), script, self.log], stdin=subprocess.DEVNULL)
        self.port = until("Node.js listens", self.new_lines)[0]["port"]
        return self

    @staticmethod
    def read(entry):
        if "refused" in entry:
            return None
        raw = entry["fields"]
        return entry["method"], entry["target"], list(zip(raw[::2], raw[1::2])), entry["body"]
