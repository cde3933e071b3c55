//! Renews the Lease of every node, spread evenly over the interval.

use reconcile::leader::LEASE;
use reconcile::plan::Target;
use reconcile::{Context, Error, Name};
use serde_json::json;
use tokio::time::{Duration, Instant};

use super::{NAME, name};

/// Half of what the node lifecycle controller is patient for.
const INTERVAL: Duration = Duration::from_secs(20);
const LEASE_SECONDS: u32 = 40;
const NAMESPACE: &str = "kube-node-lease";

/// Never returns but when everything is to stop.
pub async fn beat(context: Context, count: u32) {
    if count == 0 {
        return;
    }
    let apart = INTERVAL / count;
    let mut next = Instant::now();
    loop {
        for index in 0..count {
            if let Err(error) = renew(&context, index).await {
                tracing::debug!(node = name(index), error = %error.chain(), "not renewed");
            }
            next += apart;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = context.stopping() => return,
            }
        }
    }
}

async fn renew(context: &Context, index: u32) -> Result<(), Error> {
    let requests = context.requests(NAME, Default::default()).brief();
    let node = name(index);
    let at = context.environment.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let key = Name::new(NAMESPACE, node.as_str());
    // There nearly always is one, so it is not looked for first.
    let (uid, revision, subresource) = (String::new(), None, "");
    let target = Target { kind: LEASE, name: key, uid, revision, subresource };
    let patch = json!({"spec": {"renewTime": at, "holderIdentity": node}});
    match requests.patch(&target, &patch).await {
        Err(error) if error.is_not_found() => {}
        renewed => return renewed.map(|_| ()),
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at},
    });
    requests.create(LEASE, &lease).await.map(|_| ())
}
