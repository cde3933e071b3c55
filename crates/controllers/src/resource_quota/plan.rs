//! What a quota says.

use amounts::quota;
use reconcile::{Object, Plan, Wake};
use serde_json::{Value, json};

use super::observe::Observed;

pub fn plan(quota: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    match observed {
        Observed::Known => {}
        Observed::Later(after) => plan.wake = Wake::After(*after),
        Observed::Counted(total) => {
            let hard = hard(quota).clone();
            let used = quota::used(&quota.value, total);
            if quota.value["status"]["hard"] != hard || quota.value["status"]["used"] != used {
                plan.status = Some(json!({"hard": hard, "used": used}));
            }
        }
    }
    plan
}

/// Whether the status follows the specification, as far as one can tell without counting.
pub fn is_complete(quota: &Object) -> bool {
    let status = &quota.value["status"];
    let names = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let hard = hard(quota);
    !hard.is_null() && status["hard"] == *hard && names(&status["used"]) == names(hard)
}

fn hard(quota: &Object) -> &Value {
    &quota.value["spec"]["hard"]
}
