import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        data = b''
        while piece := self.request.recv(65536):
            data += piece
        self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128
server = Server(('127.0.0.1', 0), Echo)
print('port', server.server_address[1], flush=True)
server.serve_forever()
