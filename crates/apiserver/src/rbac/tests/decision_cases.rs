//! Decisions of the authorizer as data.
//!
//! `POLICY` is in the form of `bootstrap_data.txt` and comes on top of the built-in objects. A case
//! reads `WHO VERB RESOURCE[/SUBRESOURCE][.GROUP] [in NAMESPACE] [named NAME]`, or
//! `WHO VERB /PATH`.
//! Who is a user with groups (`ann+dev`), a service account (`account:ns:name`), or `anonymous`.

pub const POLICY: &str = "\
clusterrole pod-reader
  allow get,list,watch on pods in core
clusterrole log-reader
  allow get on pods/log in core
clusterrole any-scale
  allow get,update on */scale in *
clusterrole all-of-apps
  allow * on * in apps
clusterrole all-subresources-in-vain
  allow get on widgets/* in example.com
clusterrole one-secret
  allow get,update,delete on secrets in core named db
clusterrole create-named
  allow create,list,watch,deletecollection on configmaps in core named only
clusterrole paths
  allow get,post at /metrics,/debug/*
clusterrole prefix
  allow get at /logs*
clusterrole reads-everything
  allow get,list,watch on * in *
clusterrole no-verbs-for-urls
  allow * on * in *
clusterrole monitoring-part
  label rbac.authorization.k8s.io/aggregate-to-view=true
  allow get,list on trainjobs in trainer.kubeflow.org
role dev pod-writer
  allow create,update,delete on pods in core
role dev account-role
  allow list on services in core
role prod pod-writer
  allow delete on pods in core
clusterrolebinding readers
  to ClusterRole pod-reader
  user ann
  group readers
clusterrolebinding logs
  to ClusterRole log-reader
  user ann
clusterrolebinding scale
  to ClusterRole any-scale
  user scaler
clusterrolebinding apps
  to ClusterRole all-of-apps
  user appsy
clusterrolebinding vain
  to ClusterRole all-subresources-in-vain
  user vain
clusterrolebinding paths
  to ClusterRole paths
  user pat
clusterrolebinding prefix
  to ClusterRole prefix
  user pat
clusterrolebinding gone
  to ClusterRole not-there
  user lost
clusterrolebinding role-in-a-cluster-binding
  to Role pod-writer
  user cli
clusterrolebinding auditors
  to ClusterRole reads-everything
  group auditors
clusterrolebinding resources-only
  to ClusterRole no-verbs-for-urls
  user nearly
rolebinding dev writers
  to Role pod-writer
  user bob
  account dev builder
rolebinding dev secret
  to ClusterRole one-secret
  user bob
rolebinding dev named
  to ClusterRole create-named
  user bob
rolebinding dev paths-in-a-namespace
  to ClusterRole paths
  user bob
rolebinding dev admins
  to ClusterRole admin
  user dana
rolebinding dev editors
  to ClusterRole edit
  user ed
rolebinding dev viewers
  to ClusterRole view
  group dev
rolebinding dev own-account
  to Role account-role
  account dev lister
  account other lister
rolebinding prod cross
  to Role pod-writer
  account dev builder
rolebinding prod missing
  to Role account-role
  user bob
";

pub const ALLOWED: &str = "\
ann get pods
ann list pods
ann watch pods in dev
ann get pods in dev named x
ann get pods/log in dev named x
x+readers list pods in prod
x+a+readers+b list pods
scaler get deployments/scale.apps in dev named d
scaler update replicationcontrollers/scale in dev named r
scaler get widgets/scale.example.com
appsy create deployments.apps in dev
appsy delete statefulsets.apps in prod named s
appsy patch deployments/scale.apps in dev named d
appsy anything anything/at-all.apps
pat get /metrics
pat post /metrics
pat get /debug/
pat get /debug/pprof/heap
pat get /logs
pat get /logs/x
pat get /logsmore
x+auditors get secrets in dev named db
x+auditors list pods/log
x+auditors watch nodes.metrics.k8s.io
nearly delete everything.example.com in x named y
bob create pods in dev
bob delete pods in dev named x
bob get secrets in dev named db
bob update secrets in dev named db
bob delete secrets in dev named db
bob create configmaps in dev named only
bob list configmaps in dev named only
account:dev:builder create pods in dev
account:dev:builder delete pods in prod named x
account:dev:lister list services in dev
account:other:lister list services in dev
dana create rolebindings.rbac.authorization.k8s.io in dev
dana update roles.rbac.authorization.k8s.io in dev named r
dana create localsubjectaccessreviews.authorization.k8s.io in dev
dana create pods in dev
dana get pods/log in dev named x
dana list secrets in dev
dana create pods/exec in dev named x
dana list trainjobs.trainer.kubeflow.org in dev
ed create deployments.apps in dev
ed delete secrets in dev named s
ed get configmaps in dev named c
ed impersonate serviceaccounts in dev named builder
ed create serviceaccounts/token in dev named builder
ed create pods/eviction in dev named x
ed update leases.coordination.k8s.io in dev named l
ed get trainjobs.trainer.kubeflow.org in dev named t
x+dev get pods in dev named x
x+dev list deployments.apps in dev
x+dev get pods/log in dev named x
x+dev watch jobs.batch in dev
x+dev list trainjobs.trainer.kubeflow.org in dev
root+system:masters delete nodes named n
root+system:masters get /anything
root+system:masters escalate clusterroles.rbac.authorization.k8s.io
anonymous get /healthz
anonymous get /livez
anonymous get /readyz
anonymous get /version
anonymous get /version/
ann get /api
ann get /apis/apps/v1
ann get /openapi/v3
ann get /healthz
ann create selfsubjectaccessreviews.authorization.k8s.io
ann create selfsubjectrulesreviews.authorization.k8s.io
ann create selfsubjectreviews.authentication.k8s.io
x+system:monitoring get /metrics
x+system:monitoring get /livez/etcd
account:kube-system:anything get /.well-known/openid-configuration
account:dev:builder get /openid/v1/jwks
account:kube-system:job-controller create pods in dev
account:kube-system:job-controller update jobs/status.batch in dev named j
account:kube-system:deployment-controller update deployments/status.apps in dev named d
account:kube-system:namespace-controller deletecollection widgets.example.com in dev
account:kube-system:generic-garbage-collector patch widgets.example.com in dev named w
system:kube-scheduler create pods/binding in dev named x
system:kube-scheduler create leases.coordination.k8s.io in kube-system
system:kube-controller-manager create serviceaccounts/token in kube-system named x
system:kube-controller-manager list widgets.example.com
system:kube-proxy list services
";

pub const DENIED: &str = "\
ann create pods
ann delete pods in dev named x
ann get pods/exec in dev named x
ann get pods/status in dev named x
ann get pods.metrics.k8s.io
ann get secrets in dev named db
ann list podss
ann GET pods
ann get Pods
x list pods
readers list pods
x+READERS list pods
scaler get deployments.apps in dev named d
scaler patch deployments/scale.apps in dev named d
scaler get deployments/status.apps in dev named d
appsy create jobs.batch in dev
appsy get pods
vain get widgets.example.com
vain get widgets/status.example.com
pat get /metric
pat get /metrics/
pat put /metrics
pat get /debug
pat post /logs
pat get /
x+auditors get /metrics
x+auditors create pods
x+auditors delete secrets in dev named db
nearly get /metrics
nearly get /
bob create pods
bob create pods in prod
bob delete pods in prod named x
bob get pods in dev named x
bob list secrets in dev
bob get secrets in dev
bob get secrets in dev named other
bob get secrets in prod named db
bob delete secrets in dev named dbx
bob create configmaps in dev
bob list configmaps in dev
bob deletecollection configmaps in dev
bob get /metrics
bob list services in prod
cli create pods
cli create pods in dev
lost get pods in dev
account:prod:builder create pods in dev
account:dev:builder create pods in prod
account:dev:builder create pods
account:third:lister list services in dev
system:serviceaccount:dev list services in dev
builder create pods in dev
dana create pods in prod
dana create clusterroles.rbac.authorization.k8s.io
dana update namespaces named dev
dana delete namespaces named dev
dana escalate roles.rbac.authorization.k8s.io in dev named r
dana bind clusterroles.rbac.authorization.k8s.io in dev named cluster-admin
dana update resourcequotas in dev named q
dana create limitranges in dev
dana get nodes named n
ed create roles.rbac.authorization.k8s.io in dev
ed get rolebindings.rbac.authorization.k8s.io in dev named r
ed impersonate users named root
ed get secrets in prod named s
ed create trainjobs.trainer.kubeflow.org in dev
x+dev get secrets in dev named s
x+dev list roles.rbac.authorization.k8s.io in dev
x+dev create pods in dev
x+dev get pods
x+dev get pods in prod named x
x+dev create pods/exec in dev named x
root+masters delete nodes named n
anonymous get /api
anonymous get /apis
anonymous get /metrics
anonymous get /openapi/v3
anonymous get /healthz/etcd
anonymous post /healthz
anonymous get /
anonymous get pods
anonymous create selfsubjectaccessreviews.authorization.k8s.io
anonymous get /.well-known/openid-configuration
ann get /metrics
ann create subjectaccessreviews.authorization.k8s.io
ann create tokenreviews.authentication.k8s.io
x+system:nodes get nodes named n
x+system:nodes list secrets
system:node:a get pods
system:kube-scheduler delete nodes named n
system:kube-scheduler delete leases.coordination.k8s.io in dev named l
system:kube-scheduler get secrets in kube-system named s
system:kube-controller-manager impersonate users named root
account:kube-system:job-controller delete nodes named n
account:dev:job-controller create pods in dev
account:kube-system:deployment-controller get secrets in dev named s
";
