//! Keeps the account `default` in every namespace.
//!
//! Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches};
use serde_json::json;

use crate::kinds::{NAMESPACE, SERVICE_ACCOUNT};

const ACCOUNT: &str = "default";
/// One that is deleted before the cache ever shows it is not told of, so what was made is looked
/// for once more.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

pub struct Controller;

/// Whether the account is there.
pub type IsThere = bool;

impl Reconciler for Controller {
    type Observed = IsThere;
    const NAME: &'static str = "service-account-controller";
    const KIND: Kind = NAMESPACE;

    fn watches(&self, watches: &mut Watches) {
        watches.by(SERVICE_ACCOUNT, |change| {
            let name = &change.object().name;
            let is_gone = change.new.is_none() && &*name.name == ACCOUNT;
            if is_gone { vec![Name::new("", name.namespace.clone())] } else { Vec::new() }
        });
    }

    async fn observe(&self, context: &Context, namespace: &Arc<Object>) -> Result<IsThere, Error> {
        let name = Name::new(namespace.name.name.clone(), ACCOUNT);
        Ok(context.cache(SERVICE_ACCOUNT).get(&name).is_some())
    }

    fn plan(&self, namespace: &Object, is_there: &IsThere, _: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if !is_there && !namespace.is_terminating() {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"namespace": &*namespace.name.name, "name": ACCOUNT}});
            plan.create(SERVICE_ACCOUNT, account);
            plan.wake = Wake::After(LOOK_AGAIN);
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_stays_has_an_account() {
        let namespace = |more| {
            let mut metadata = json!({"name": "a", "uid": "u"});
            metadata["deletionTimestamp"] = more;
            Object::new(json!({"metadata": metadata}))
        };
        let text = |namespace: &Object, is_there: bool| {
            let plan = Controller.plan(namespace, &is_there, Timestamp::UNIX_EPOCH);
            plan.expect("a plan").to_string()
        };
        let staying = namespace(json!(null));
        assert_eq!(text(&staying, false), "create v1 ServiceAccount a/default\nwake after 5s\n");
        assert_eq!(text(&staying, true), "wake on change\n");
        let going = namespace(json!("1970-01-01T00:00:00Z"));
        assert_eq!(text(&going, false), "wake on change\n");
    }
}
