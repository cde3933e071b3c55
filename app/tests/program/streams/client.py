import sys
from kubernetes import client, config
from kubernetes.stream import stream, portforward
config.load_kube_config()
api = client.CoreV1Api()
port = int(sys.argv[1])

out = stream(api.connect_get_namespaced_pod_exec, 'echo', 'default',
             command=['sh', '-c', 'echo $COLOR'], stderr=True, stdin=False, stdout=True, tty=False)
assert out == 'blue\n', out

running = stream(api.connect_get_namespaced_pod_exec, 'echo', 'default',
                 command=['sh', '-c', 'read line; echo got $line; echo bad >&2; exit 6'],
                 stderr=True, stdin=True, stdout=True, tty=False, _preload_content=False)
running.write_stdin('word\n')
running.run_forever(timeout=30)
assert running.read_stdout() == 'got word\n'
assert running.read_stderr() == 'bad\n'
assert running.returncode == 6, running.returncode

forwarded = portforward(api.connect_get_namespaced_pod_portforward, 'echo', 'default',
                        ports=str(port))
socket = forwarded.socket(port)
socket.setblocking(True)
socket.sendall(b'lines\n')
got = socket.recv(6)
assert got == b'lines\n', got
assert forwarded.error(port) is None
socket.close()

try:
    stream(api.connect_get_namespaced_pod_exec, 'none', 'default', command=['true'],
           stderr=True, stdin=False, stdout=True, tty=False)
    raise AssertionError('there is no such pod')
except client.exceptions.ApiException as error:
    assert '404' in str(error) or error.status == 404, error
print('all is well')
