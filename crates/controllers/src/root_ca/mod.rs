//! Keeps the certificate of the cluster's authority in every namespace, for pods to trust.
//!
//! Upstream: pkg/controller/certificates/rootcacertpublisher

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches};
use serde_json::json;

use crate::kinds::{CONFIG_MAP, NAMESPACE};

const MAP: &str = "kube-root-ca.crt";
/// One map of each namespace: the others are many, and large.
const MAPS: Kind = CONFIG_MAP.only(MAP);
/// One that is deleted before the cache ever shows it is not told of, so what was made is looked
/// for once more.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const FILE: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
                    internal endpoints such as the internal service IP or kubernetes.default.svc. \
                    No other usage is guaranteed across distributions of Kubernetes clusters.";

pub struct Controller {
    /// The certificates, as PEM; nothing is published while there are none.
    pub authority_pem: Arc<str>,
}

impl Reconciler for Controller {
    type Observed = Option<Arc<Object>>;
    const NAME: &'static str = "root-ca-cert-publisher";
    const KIND: Kind = NAMESPACE;

    fn watches(&self, watches: &mut Watches) {
        watches.by(MAPS, |change| {
            let name = &change.object().name;
            vec![Name::new("", name.namespace.clone())]
        });
    }

    async fn observe(
        &self,
        context: &Context,
        namespace: &Arc<Object>,
    ) -> Result<Self::Observed, Error> {
        let name = Name::new(namespace.name.name.clone(), MAP);
        Ok(context.cache(MAPS).get(&name))
    }

    fn plan(&self, namespace: &Object, map: &Self::Observed, _: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if namespace.is_terminating() || self.authority_pem.is_empty() {
            return Ok(plan);
        }
        match map {
            None => {
                let made = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"namespace": &*namespace.name.name, "name": MAP,
                        "annotations": {DESCRIPTION: TEXT}},
                    "data": {FILE: &*self.authority_pem}});
                plan.create(MAPS, made);
                plan.wake = Wake::After(LOOK_AGAIN);
            }
            Some(map) => {
                let wanted = json!({FILE: &*self.authority_pem});
                let is_described = map.annotation(DESCRIPTION).is_some_and(|it| !it.is_empty());
                if map.value["data"] != wanted || !is_described {
                    let mut object = map.value.clone();
                    object["data"] = wanted;
                    if !is_described {
                        object["metadata"]["annotations"][DESCRIPTION] = json!(TEXT);
                    }
                    plan.replace(Target::unchanged(MAPS, map), object);
                }
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_namespace_that_stays_has_the_certificate() {
        let controller = Controller { authority_pem: "PEM".into() };
        let text = |data: Option<Value>| {
            let map = data.map(|data| {
                Arc::new(Object::new(
                    json!({"metadata": {"namespace": "a", "name": MAP, "uid": "m",
                    "annotations": {DESCRIPTION: "other words"}}, "data": data}),
                ))
            });
            let namespace = Object::new(json!({"metadata": {"name": "a", "uid": "u"}}));
            let plan = controller.plan(&namespace, &map, Timestamp::UNIX_EPOCH);
            plan.expect("a plan").to_string()
        };
        assert_eq!(text(None), "create v1 ConfigMap a/kube-root-ca.crt\nwake after 5s\n");
        assert_eq!(text(Some(json!({FILE: "PEM"}))), "wake on change\n");
        let wrong = [json!({FILE: "other"}), json!({FILE: "PEM", "more": "x"}), json!(null)];
        for data in wrong {
            let expected = "replace v1 ConfigMap a/kube-root-ca.crt\nwake on change\n";
            assert_eq!(text(Some(data)), expected);
        }
    }
}
