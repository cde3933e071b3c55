import socketserver
class Mirror(socketserver.BaseRequestHandler):
    def handle(self):
        while piece := self.request.recv(65536):
            self.request.sendall(piece)
server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Mirror)
print('port', server.server_address[1], flush=True)
server.serve_forever()
