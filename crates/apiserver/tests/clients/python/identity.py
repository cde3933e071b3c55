"""Who a client is: a certificate of the kubeconfig, a token of a service account, nobody."""

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core = client.CoreV1Api()
rbac = client.RbacAuthorizationV1Api()


def whoami(api):
    review = client.AuthenticationV1Api(api).create_self_subject_review({})
    return review.status.user_info


def code(call, *arguments):
    try:
        call(*arguments)
    except ApiException as error:
        return error.status
    return 200


def with_token(token):
    wanted = client.Configuration.get_default_copy()
    wanted.cert_file = wanted.key_file = None
    wanted.api_key = {"authorization": f"Bearer {token}"} if token else {}
    return client.ApiClient(wanted)


admin = whoami(client.ApiClient())
assert "system:masters" in admin.groups, admin

account = client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
account = core.create_namespaced_service_account("default", account)
spec = client.V1TokenRequestSpec(expiration_seconds=3600, audiences=[])
request = client.AuthenticationV1TokenRequest(spec=spec)
answer = core.create_namespaced_service_account_token("robot", "default", request)
robot = with_token(answer.status.token)
found = whoami(robot)
assert found.username == "system:serviceaccount:default:robot", found
assert found.uid == account.metadata.uid, found
assert "system:serviceaccounts:default" in found.groups, found

pods = client.CoreV1Api(robot).list_namespaced_pod
assert code(pods, "default") == 403
role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
binding = {"metadata": {"name": "robot"}, "roleRef": role, "subjects": [subject]}
rbac.create_namespaced_role_binding("default", binding)
assert code(pods, "default") == 200
assert code(pods, "kube-system") == 403

assert code(client.CoreV1Api(with_token("wrong")).list_namespaced_pod, "default") == 401
assert code(client.CoreV1Api(with_token(None)).list_namespaced_pod, "default") == 403
assert client.VersionApi(with_token(None)).get_code().major == "1"

# A token ends with its account.
core.delete_namespaced_service_account("robot", "default")
assert code(pods, "default") == 401
